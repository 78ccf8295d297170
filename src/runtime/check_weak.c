/* SPDX-License-Identifier: MIT */
/* Until record_text.c and heap_dump.c are there. */
#include "runtime/check_weak.h"

__attribute__((weak)) void mt_heap_dump_on_signal(void)
{
}

__attribute__((weak)) void mt_heap_dump_on_exit(void)
{
}
