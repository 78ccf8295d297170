/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_WEAK_H
#define MT_RUNTIME_CHECK_WEAK_H

/* What record_text.c and heap_dump.c define. */

#include "core/cc.h"

void mt_heap_dump_on_signal(void) MT_HIDDEN;
void mt_heap_dump_on_exit(void) MT_HIDDEN;

#endif
