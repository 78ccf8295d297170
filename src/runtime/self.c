/* SPDX-License-Identifier: MIT */
/* The thread word of the preload and link-time doors: eight bytes, so that it always finds room. */
#include "runtime/self.h"

__thread struct mt_thread *mt_self __attribute__((tls_model("initial-exec")));
__thread struct mt_thread *mt_self_full;
