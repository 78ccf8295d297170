/* SPDX-License-Identifier: MIT */
/* Heap access of the tool side. Sizes are multiplied here or in core/cc.h, nowhere else. */
#include "base/alloc.h"

static size_t made;      /* test entry only, see header */
static size_t fail_from; /* 0: never */

static int must_fail(void)
{
	size_t n = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);
	return MT_UNLIKELY(fail_from && n >= fail_from);
}

void *mt_alloc(size_t size)
{
	if (must_fail())
		return NULL;
	return malloc(size ? size : 1);
}

void *mt_alloc_zero(size_t count, size_t size)
{
	size_t bytes;
	if (must_fail() || mt_mul_size(count, size, &bytes))
		return NULL;
	return calloc(1, bytes ? bytes : 1);
}

void *mt_alloc_resize(void *block, size_t size)
{
	if (must_fail())
		return NULL;
	return realloc(block, size ? size : 1);
}

void *mt_alloc_grow(void *array, size_t *cap, size_t need, size_t elem_bytes)
{
	size_t want = *cap < 8 ? 8 : *cap, bytes;
	if (need <= *cap && array)
		return array;
	if (want < need && __builtin_add_overflow(want, want / 2, &want))
		want = need;
	if (want < need)
		want = need;
	if (mt_mul_size(want, elem_bytes, &bytes))
		return NULL;
	void *moved = mt_alloc_resize(array, bytes);
	if (!moved)
		return NULL;
	*cap = want;
	return moved;
}

size_t mt_alloc_fail_from_for_test(size_t nth)
{
	size_t n = made;
	made = 0;
	fail_from = nth;
	return n;
}
