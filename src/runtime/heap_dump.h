/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_HEAP_DUMP_H
#define MT_RUNTIME_HEAP_DUMP_H

/*
 * The live blocks as text, "Android Native Heap Dump v1.2", which `memtrack view` and other readers
 * of that format understand:
 *
 *     z 0  sz      300  num    2  bt 7f01 7f02
 *       bt_info {"/lib/libx.so" 1234 "name" 12} ...    with backtrace_full; names not demangled
 *
 * Blocks of equal size and stack are one record each. Other threads go on meanwhile: what comes or
 * goes is in it or is not. Guard held.
 */

#include "runtime/leak_list.h"

/* PREFIX.PID.txt, and at exit PREFIX.PID.exit.txt. Lines of the log say where, or why not. */
void mt_heap_dump_on_signal(void);
void mt_heap_dump_on_exit(void);

/* To a descriptor of the program's. 0 or a negative errno value. */
int mt_heap_dump_to(int fd);

/*
 * The list of what is live, in its order, but with one element for all blocks of equal size and
 * stack: `place` is how many. at_exit as of mt_leak_list_make(). 0 or -ENOMEM; give it back with
 * mt_leak_list_done().
 */
int mt_heap_records_make(int at_exit, struct mt_leak_list *ret_records);

/* In a forked child: nobody is writing. */
void mt_heap_dump_forget(void);

#endif
