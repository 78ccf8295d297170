/* SPDX-License-Identifier: MIT */
#ifndef MT_REACH_FOLD_H
#define MT_REACH_FOLD_H

/*
 * Of lost blocks, those that explain the others: blocks that no other lost block points to, and
 * cycles that nothing outside of them points to. All else that is lost hangs on these.
 */

#include "reach/mark.h"

struct mt_fold_leak {
	uint32_t block; /* index; of similar ones that with the most bytes */
	/*
	 * Blocks that point to each other in a ring or worse, this one included; 1: it is alone.
	 * One of them, that with the lowest address, stands for all: is_first.
	 */
	uint32_t cycle;
	bool is_first;
	bool is_at_least; /* referenced_...: there may be more; counting all took too long */
	uint64_t bytes;
	uint64_t referenced_count, referenced_bytes; /* lost blocks to be reached from it */
	/* others with the same call stack, and lost blocks to be reached from these */
	uint64_t similar_count, similar_bytes;
	uint64_t similar_referenced_count, similar_referenced_bytes;
};

struct mt_fold {
	struct mt_fold_leak *leak; /* owned; most bytes in all first, then by address */
	size_t leaks;
	uint64_t lost_count, lost_bytes;     /* each block once */
	uint64_t direct_count, direct_bytes; /* of these: explained by no other; a cycle is one */
};

/* NULL is fine. */
void mt_fold_done(struct mt_fold *f);
MT_AUTO_DEFINE_INPLACE(mt_fold, struct mt_fold, mt_fold_done)

/*
 * block: those that were marked. bytes: what each counts for, NULL: its range. stack: by block,
 * equal ones are merged; 0 or NULL: not known, never merged. Every block of a cycle is a leak of
 * its own, but only first ones are merged. 0 or -ENOMEM.
 */
int mt_fold_run(const struct mt_mark *m, const struct mt_range *block, const uint64_t *bytes,
		const uint64_t *stack, struct mt_fold *ret_fold);

#endif
