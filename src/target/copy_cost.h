/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_COPY_COST_H
#define MT_TARGET_COPY_COST_H

/* What a copy on write costs the process that is copied, once it runs on. */

#include "target/image.h"

struct mt_copy_cost {
	/* the first write to a page, on this machine and now; 0: could not be measured */
	uint64_t copied_ns; /* while there is a copy: the page is copied */
	uint64_t kept_ns;   /* when the copy is gone: the page only becomes writable again */
	/* of one copy */
	uint64_t copied_bytes; /* pages that were copied because the process wrote to them */
	uint64_t kept_bytes;   /* the others, for which there will be a fault when it does */
	bool is_known;         /* both were counted */
};

/*
 * Measures the two times on a MiB of our own memory, which takes some milliseconds. To be called
 * while we are small and have one thread: it forks.
 */
void mt_copy_cost_measure(struct mt_copy_cost *cost);

/* Counts pages of an image that is a copy. Walks the copy's page tables. */
void mt_copy_cost_count(struct mt_copy_cost *cost, const struct mt_image_facts *facts);

#endif
