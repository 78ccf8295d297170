/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_SUM_H
#define MT_FORMATS_MTK_SUM_H

/*
 * From the per-thread counters of a state file to sites, heaps and the process: the rules of the
 * chapter "Adding up" in docs/formats/mtk.md.
 */

#include "core/cc.h"
#include "model/profile.h"
#include "wire/state.h"

/* Raw tables as copied from the file; the profile's tables of the same name have the same counts.
 */
struct mt_mtk_raw {
	struct mt_state_header header;
	struct mt_state_cell *cell;
	struct mt_state_hist *hist;
	struct mt_state_site *site;
	struct mt_state_thread *thread;
	struct mt_state_module *module;
	struct mt_state_node *node;
	struct mt_state_heap *heap;
	struct mt_state_label *label;
	struct mt_state_regime *regime;
	struct mt_state_sampled *sampled; /* at least as long as the cells */
	struct mt_state_stats *stats;     /* at least as long as the threads */
	struct mt_state_big *big;
	struct mt_state_change *change;
	struct mt_state_error *error;
	struct mt_state_damage *damage;
	uint32_t cell_count, hist_count, site_count, thread_count;
	uint32_t module_count, node_count, heap_count, label_count;
	uint32_t regime_count, sampled_count, stats_count, big_count, change_count;
	uint32_t error_count, damage_count;
};

/*
 * Fills what p's sites, heaps and the process get by adding up. p's cells are complete, with site
 * and thread in range, and so is p->site[].heap; p's samples and statistics are filled in. 0 or
 * -ENOMEM.
 */
int mt_mtk_sum(struct mt_profile *p, const struct mt_mtk_raw *raw);

#endif
