/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LOST_BLOCKS_H
#define MT_RUNTIME_LOST_BLOCKS_H

/* What the last look left in our own state file, together with the live blocks. */

#include "runtime/leak_list.h"

struct mt_lost_block {
	struct mt_leak leak;
	uint32_t leaks; /* it and others of the same call stack */
};

/* The leaks of the last look that are still live, larger ones first: how many, `most` at most. */
uint32_t mt_lost_blocks(struct mt_lost_block *ret_blocks, uint32_t most);

/* Live blocks of the malloc heap, and their bytes. */
uint64_t mt_lost_blocks_live(uint64_t *ret_bytes);

#endif
