/* SPDX-License-Identifier: MIT */
/* The thread words of the preload and link-time doors: few bytes, so that they always find room. */
#include "runtime/self.h"

__thread struct mt_thread *mt_self __attribute__((tls_model("initial-exec")));
__thread struct mt_thread *mt_self_full;
__thread struct mt_thread *mt_self_light;
