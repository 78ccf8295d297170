/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_ALLOC_H
#define MT_BASE_ALLOC_H

/*
 * The one door of base to the heap, so that a test can make the nth allocation fail. Blocks are
 * plain malloc blocks: free() releases them. Thread-safe, except for the test entry.
 */

#include <stdlib.h>

#include "core/cc.h"

/* size bytes (0 counts as 1), not zeroed, or NULL. */
void *mt_alloc(size_t size) MT_MALLOC(free);

/* count * size zeroed bytes, or NULL; also when the product overflows. */
void *mt_alloc_zero(size_t count, size_t size) MT_MALLOC(free);

/* As realloc (size 0 counts as 1); on NULL the old block stays valid. */
void *mt_alloc_resize(void *block, size_t size) __attribute__((warn_unused_result));

/*
 * Makes room for `need` elements of elem_bytes in a heap array of *cap elements: returns the array,
 * perhaps moved, with *cap raised in geometric steps; or NULL (no memory, or the size overflows):
 * then array and *cap are as before. array may be NULL with *cap 0. New elements are not zeroed.
 */
void *mt_alloc_grow(void *array, size_t *cap, size_t need, size_t elem_bytes)
	__attribute__((warn_unused_result));

/*
 * The nth allocation from now (1: the next) and all that follow fail; 0: none does. Returns how
 * many allocations were made since the last call. One thread only.
 */
size_t mt_alloc_fail_from_for_test(size_t nth);

#endif
