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
	uint32_t cell_count, hist_count, site_count, thread_count;
	uint32_t module_count, node_count, heap_count, label_count;
};

/*
 * Fills what p's sites, heaps and the process get by adding up. p's cells are complete, with site
 * and thread in range, and so is p->site[].heap. 0 or -ENOMEM.
 */
int mt_mtk_sum(struct mt_profile *p, const struct mt_mtk_raw *raw);

#endif
