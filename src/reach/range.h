/* SPDX-License-Identifier: MIT */
#ifndef MT_REACH_RANGE_H
#define MT_REACH_RANGE_H

/* Sets of addresses as sorted, disjoint ranges. One thread at a time. */

#include "base/cleanup.h"

#include <stddef.h>
#include <stdint.h>

struct mt_range {
	uint64_t start, end; /* [start, end) */
};

/* All-zero is a valid empty set. */
struct mt_ranges {
	struct mt_range *item; /* owned */
	size_t count, capacity;
};

/* NULL is fine. */
void mt_ranges_done(struct mt_ranges *r);
MT_AUTO_DEFINE_INPLACE(mt_ranges, struct mt_ranges, mt_ranges_done)

/* Appends; an empty range is left out. The set is in no order until mt_ranges_tidy(). 0, -ENOMEM.
 */
int mt_ranges_add(struct mt_ranges *r, uint64_t start, uint64_t end);

/* Sorts, and joins what overlaps or touches. */
void mt_ranges_tidy(struct mt_ranges *r);

/* Takes `count` tidy ranges out of a tidy set, which stays tidy. 0 or -ENOMEM (then as before). */
int mt_ranges_subtract(struct mt_ranges *r, const struct mt_range *what, size_t count);

/* Bytes of a tidy set. */
uint64_t mt_ranges_bytes(const struct mt_ranges *r);

enum { MT_RANGE_NONE = -1 };

/* The index of the range that holds the address among sorted, disjoint ones; or MT_RANGE_NONE. */
int64_t mt_range_find(const struct mt_range *item, size_t count, uint64_t address);

#endif
