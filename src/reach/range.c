/* SPDX-License-Identifier: MIT */
/* Sets of addresses. What a set holds is decided by sweeps over sorted ranges, never pairwise. */

#include "reach/range.h"

#include "base/alloc.h"
#include "base/search.h"
#include "core/cc.h"

#include <errno.h>
#include <stdbool.h>

void mt_ranges_done(struct mt_ranges *r)
{
	if (!r)
		return;
	free(r->item);
	*r = (struct mt_ranges){0};
}

int mt_ranges_add(struct mt_ranges *r, uint64_t start, uint64_t end)
{
	struct mt_range *grown;

	if (start >= end)
		return 0;
	grown = mt_alloc_grow(r->item, &r->capacity, r->count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	r->item = grown;
	r->item[r->count++] = (struct mt_range){start, end};
	return 0;
}

static int by_start(const void *a, const void *b)
{
	const struct mt_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static bool is_sorted(const struct mt_ranges *r)
{
	for (size_t i = 1; i < r->count; i++)
		if (r->item[i].start < r->item[i - 1].start)
			return false;
	return true;
}

void mt_ranges_tidy(struct mt_ranges *r)
{
	size_t kept = 0;

	if (!r->count)
		return;
	/* often nothing is to be done, and sorting would take as much memory again */
	if (!is_sorted(r))
		qsort(r->item, r->count, sizeof(*r->item), by_start);
	for (size_t i = 1; i < r->count; i++) {
		if (r->item[i].start <= r->item[kept].end)
			r->item[kept].end = MT_MAX(r->item[kept].end, r->item[i].end);
		else
			r->item[++kept] = r->item[i];
	}
	r->count = kept + 1;
}

int mt_ranges_subtract(struct mt_ranges *r, const struct mt_range *what, size_t count)
{
	struct mt_ranges left = {0};
	size_t k = 0;

	for (size_t i = 0; i < r->count; i++) {
		uint64_t at = r->item[i].start, end = r->item[i].end;

		while (k < count && what[k].end <= at)
			k++;
		for (size_t m = k; m < count && what[m].start < end; m++) {
			if (mt_ranges_add(&left, at, what[m].start))
				goto fail;
			at = MT_MAX(at, what[m].end);
		}
		if (mt_ranges_add(&left, at, end))
			goto fail;
	}
	mt_ranges_done(r);
	*r = left;
	return 0;
fail:
	mt_ranges_done(&left);
	return -ENOMEM;
}

uint64_t mt_ranges_bytes(const struct mt_ranges *r)
{
	uint64_t bytes = 0;

	for (size_t i = 0; i < r->count; i++)
		bytes += r->item[i].end - r->item[i].start;
	return bytes;
}

int64_t mt_range_find(const struct mt_range *item, size_t count, uint64_t address)
{
	size_t low = MT_SEARCH_UP_TO(item, count, end, address);

	return low < count && item[low].start <= address ? (int64_t)low : MT_RANGE_NONE;
}
