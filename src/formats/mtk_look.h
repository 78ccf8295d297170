/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_LOOK_H
#define MT_FORMATS_MTK_LOOK_H

/*
 * The result of a look for blocks that nothing can reach (docs/formats/mtk.md, Looks), as the
 * reader of state files takes it. Private to it.
 */

#include "formats/mtk_fill.h"

/* Takes over the file's table of lost blocks, for mt_mtk_look_has(). */
void mt_mtk_look_take(struct mt_mtk_reader *rd, struct mt_state_unreached *all, uint32_t count);

/* Whether a block with this address and time of birth is lost. */
bool mt_mtk_look_has(struct mt_mtk_reader *rd, uint64_t place, uint32_t unit);

/*
 * What the header says of the look, and by block whether it is lost or held. rd->block_mark has
 * MT_BLOCK_LOST or MT_BLOCK_HELD of all; blocks that are of other heaps or younger become UNSEEN.
 * Before the blocks become the profile's. Gives rd->block_mark to the profile. 0 or -ENOMEM.
 */
int mt_mtk_fill_look(struct mt_mtk_reader *rd);

#endif
