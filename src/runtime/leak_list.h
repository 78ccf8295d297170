/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LEAK_LIST_H
#define MT_RUNTIME_LEAK_LIST_H

/*
 * The live blocks of the malloc heap in the order in which malloc debug lists them: larger before
 * smaller, those with a stack before those without, deeper stacks before shallower, and by address.
 */

#include "runtime/rt.h"

struct mt_leak {
	uint64_t place;
	uint64_t size;   /* as it was asked for */
	uint32_t node;   /* innermost frame of its stack, 0: none was taken */
	uint32_t frames; /* of it, at most as many as the options say; our own do not count */
};

struct mt_leak_list {
	struct mt_leak *leak;
	uint64_t count;
	size_t map_bytes;
};

/*
 * Reads the live table. at_exit: without the buffers of the C library's three streams, which it
 * never frees. 0 or -ENOMEM. Other threads may go on: what comes or goes meanwhile is in it or is
 * not. Memory of its own; give it back with mt_leak_list_done().
 */
int mt_leak_list_make(int at_exit, struct mt_leak_list *ret_list);
void mt_leak_list_done(struct mt_leak_list *list);

/* Sorts such an array; it needs no other memory. */
void mt_leak_sort(struct mt_leak *leak, uint64_t count);

#endif
