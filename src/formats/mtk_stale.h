/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_STALE_H
#define MT_FORMATS_MTK_STALE_H

/*
 * Large blocks that were freed out of the writer's sight. Where a small block is live at the
 * address of a large one, the large one is gone: two blocks of the malloc heap cannot overlap, and
 * the writer takes a small block out when a large one comes to its address, but not the reverse,
 * which would cost each allocation a look into a second table. The large blocks are noted before
 * the small ones are read and looked at again after, so it holds for a process that runs.
 */

#include <stdbool.h>

#include "base/map.h"
#include "wire/state.h"

/* All-zero is valid and empty. */
struct mt_mtk_stale {
	struct mt_map large;  /* address -> which block, of large blocks of the malloc heap */
	struct mt_map gone;   /* the same, of those at whose address a small block is live */
	uint64_t filter[256]; /* bit by address: may be in large */
	uint64_t count;       /* found by mt_mtk_stale_is_gone() */
};

void mt_mtk_stale_done(struct mt_mtk_stale *s);

/* First all large blocks, then all small ones; 0 or -ENOMEM. */
int mt_mtk_stale_note_large(struct mt_mtk_stale *s, const struct mt_state_large *l);
int mt_mtk_stale_note_small(struct mt_mtk_stale *s, uint64_t place);

/* Then each large block as it is now: true, and counted, when it is one that was freed. */
bool mt_mtk_stale_is_gone(struct mt_mtk_stale *s, const struct mt_state_large *l);

#endif
