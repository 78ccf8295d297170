/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_WRAP_H
#define MT_RUNTIME_WRAP_H

#include "runtime/provider.h"

/* Link-time door: the originals as the linker's --wrap names them. */
void mt_wrap_originals(struct mt_originals *ret_originals);

#endif
