/* SPDX-License-Identifier: MIT */
#ifndef MT_HEAP_PINNED_H
#define MT_HEAP_PINNED_H

/*
 * Pages that cannot be given back because of a little that lives on them: those of a heap with live
 * blocks on at most half of their bytes, and whose blocks these are.
 */

#include "base/cleanup.h"
#include "heap/heap.h"

/* Who made a block: any address in it, and a number other than 0 for all blocks of one owner. */
struct mt_heap_owner {
	uint64_t address, owner;
};

/* What the blocks of one owner do to such pages. */
struct mt_heap_pinner {
	uint64_t owner;       /* 0: blocks that nobody owns */
	uint64_t page_bytes;  /* of the pages that have a block of it, or a part */
	uint64_t alone_bytes; /* of these: of pages that have live blocks of no other */
	uint64_t live_bytes;  /* of its blocks on these pages */
	uint64_t live_blocks; /* these */
};

struct mt_heap_pinned {
	uint64_t page_bytes, live_bytes;
	struct mt_heap_pinner *pinners; /* owned; by page_bytes, the most first */
	size_t pinner_count;
};

/* owners: sorted by address; may be NULL. 0 or -ENOMEM. */
int mt_heap_pinned_find(const struct mt_heap *h, uint64_t page_bytes,
			const struct mt_heap_owner *owners, size_t owner_count,
			struct mt_heap_pinned *ret_pinned);
void mt_heap_pinned_done(struct mt_heap_pinned *p); /* NULL is fine */
MT_AUTO_DEFINE_INPLACE(mt_heap_pinned, struct mt_heap_pinned, mt_heap_pinned_done)

#endif
