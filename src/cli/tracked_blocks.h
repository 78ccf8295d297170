/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_TRACKED_BLOCKS_H
#define MT_CLI_TRACKED_BLOCKS_H

/* The blocks that the tracker knows of a process, for a search for lost ones. */

#include "model/profile.h"
#include "reach/find.h"

/* Whether the table has all blocks, so that none but these can be lost. */
bool mt_tracked_is_table(const struct mt_profile *p);

/*
 * What is live in an image that was made between two readings of the state: `before` may be NULL
 * when nothing can have changed. A block's stack is its site in `after`, and its tag, if it is
 * sure, its index there. Sorted by address; the caller frees with free(). NULL: no memory.
 */
struct mt_known *mt_tracked_blocks(const struct mt_profile *before, const struct mt_profile *after,
				   size_t *ret_count);

#endif
