/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_FILL_H
#define MT_FORMATS_MTK_FILL_H

/*
 * Second half of reading a state file: raw tables, copied before, become the profile's. Private to
 * the reader of state files.
 */

#include <stdbool.h>

#include "core/cc.h"
#include "formats/mtk_source.h"
#include "formats/mtk_stale.h"
#include "formats/mtk_sum.h"
#include "formats/mtk_time.h"
#include "model/profile.h"

/* Kinds of damage that are counted and reported once, after all was read. */
enum mt_mtk_damage {
	MT_MTK_BAD_STRING,
	MT_MTK_BAD_MODULE,
	MT_MTK_BAD_PARENT,
	MT_MTK_BAD_SITE_NODE,
	MT_MTK_BAD_SITE_HEAP,
	MT_MTK_BAD_SITE_LABEL,
	MT_MTK_BAD_CELL_SITE,
	MT_MTK_BAD_CELL_THREAD,
	MT_MTK_BAD_BLOCK_CELL,
	MT_MTK_BAD_HIST,
	MT_MTK_BAD_THREAD,
	MT_MTK_BAD_REGIME,
	MT_MTK_BAD_SAMPLED,
	MT_MTK_BAD_ERROR,
	MT_MTK_DAMAGES,
};

/* One reading. */
struct mt_mtk_reader {
	struct mt_mtk_source source;
	struct mt_profile *profile; /* owned */
	struct mt_mtk_raw raw;      /* tables are heap blocks, owned */
	struct mt_mtk_time time;
	bool moving;         /* the process runs */
	const char *strings; /* of the profile's arena; a NUL stands at strings_len */
	uint32_t strings_len;
	struct mt_profile_block *block; /* owned; cell and heap are not checked yet */
	uint64_t *block_key;            /* owned; of each block; NULL: not wanted */
	uint64_t *block_address;        /* the same */
	uint8_t *block_mark;            /* the same: MT_BLOCK_LOST or MT_BLOCK_HELD */
	size_t block_cap, key_cap, address_cap, mark_cap, blocks;
	bool has_keys, has_addresses;
	struct mt_mtk_stale stale;
	struct mt_state_unreached *lost; /* owned; what the last look found, by address */
	uint32_t lost_count, lost_next;
	uint64_t damage[MT_MTK_DAMAGES];
	uint64_t warned_kinds; /* bit: this kind of region was reported */
};

/*
 * Fills the profile's header, modules, nodes, heaps, labels, sites, threads and cells from rd->raw,
 * and its blocks from rd->block (which then belong to the profile, as raw.hist does), with what is
 * live by them in each cell and heap. Every index is checked; what is
 * wrong is counted in rd->damage. 0 or -ENOMEM.
 */
int mt_mtk_fill(struct mt_mtk_reader *rd);

/* The string at an offset, "" and counted as damage when it is not in the file. Of the profile. */
const char *mt_mtk_string(struct mt_mtk_reader *rd, uint32_t offset);

#endif
