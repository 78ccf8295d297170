/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_MODES_H
#define MT_FORMATS_MTK_MODES_H

/*
 * Third part of reading a state file: what is there beside a record of every block: samples, exact
 * statistics, changes of the recording. Private to the reader of state files. All results are 0 or
 * -ENOMEM.
 */

#include "formats/mtk_fill.h"

/* Before the sites. */
int mt_mtk_fill_regimes(struct mt_mtk_reader *rd);

/* After the cells, before the blocks: sampled cells get their estimates. */
int mt_mtk_fill_samples(struct mt_mtk_reader *rd);

/* A block of a sampled cell of the profile. */
void mt_mtk_place_sample(struct mt_mtk_reader *rd, const struct mt_profile_block *b);

/* After the blocks: what is live by the samples, in cells and heaps. */
void mt_mtk_close_samples(struct mt_mtk_reader *rd);

/* After the threads and strings: statistics, big blocks, changes. */
int mt_mtk_fill_modes(struct mt_mtk_reader *rd);

#endif
