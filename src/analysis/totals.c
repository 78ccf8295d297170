/* SPDX-License-Identifier: MIT */
/* Sums over the profiles of a run. */

#include "analysis/table.h"

#include "core/cc.h"
#include "model/profile.h"

/* The reason of profile.lost that the threads count for themselves. */
enum { LOST_NESTED = 0 };

static void add_threads(const struct mt_profile *p, struct mt_totals *t)
{
	for (uint32_t i = 1; i < p->thread_count; i++) {
		const struct mt_profile_thread *th = &p->thread[i];

		t->captures += th->captures;
		t->memo_hits += th->memo_hits;
		t->frames_walked += th->frames_walked;
		t->fp_steps += th->fp_steps;
		t->row_misses += th->row_misses;
		t->verified += th->verified;
		t->verify_wrong += th->verify_wrong;
		for (uint32_t k = 0; k < MT_ARRAY_LEN(t->verify_unsure); k++)
			t->verify_unsure[k] += th->verify_unsure[k];
		t->unplaced_allocs += th->unplaced_allocs;
		t->unplaced_bytes += th->unplaced_bytes;
		t->lost[LOST_NESTED] += th->nested_allocs + th->nested_frees;
		t->untracked_allocs += th->untracked_allocs;
		t->untracked_bytes += th->untracked_bytes;
	}
}

static void add_hists(const struct mt_profile *p, struct mt_totals *t)
{
	for (uint32_t i = 1; i < p->site_count; i++) {
		if (p->site[i].heap)
			continue;
		if (!p->site[i].regime) /* the statistics have all others */
			mt_profile_add_sizes(p, i, t->size_hist, &t->size_hist_missing);
		mt_profile_add_lives(p, i, t->life_hist);
	}
	for (uint32_t i = 1; p->stats && i < p->thread_count; i++)
		for (uint32_t k = 0; k < MT_HIST_BUCKETS; k++)
			t->size_hist[k] += p->stats[i].size[k].allocs;
}

static void add_counters(const struct mt_profile *p, struct mt_totals *t)
{
	t->allocs += p->totals.allocs;
	t->frees += p->totals.frees;
	t->alloc_bytes += p->totals.bytes;
	t->freed_bytes += p->totals.freed_bytes;
	t->temporaries += p->totals.temporaries;
	t->reallocs += p->reallocs;
	t->unknown_frees += p->unknown_frees;
	t->failed_allocs += p->failed_allocs;
	t->mismatched_frees += p->mismatched_frees;
	t->live_count += p->live_count;
	t->live_bytes += p->live_bytes;
	t->block_count += p->block_count;
	t->block_bytes += p->block_bytes;
	t->peak_bytes += p->peak_bytes;
	t->peak_bound_bytes += p->peak_bound_bytes;
	t->usable_allocs += p->stats_counts.allocs;
	t->is_sampled |= mt_profile_is_sampled(p);
	t->is_peak_estimate |= p->peak_is_estimate;
	for (uint32_t i = 1; p->site_sample && i < p->site_count; i++)
		t->samples += p->site_sample[i].allocs;
	for (uint32_t i = 1; p->stats && i < p->thread_count; i++) {
		t->no_block += p->stats[i].no_block;
		t->no_site += p->stats[i].no_site;
		t->left_by_size += p->stats[i].left_by_size;
		t->left_by_module += p->stats[i].left_by_module;
	}
	t->duration_ns = MT_MAX(t->duration_ns, p->duration_ns);
	for (uint32_t k = 0; k < MT_ARRAY_LEN(t->lost); k++)
		t->lost[k] += p->lost[k];
}

static void add_marks(const struct mt_profile *p, struct mt_totals *t)
{
	t->looked += p->block_mark != NULL;
	for (uint64_t i = 0; p->block_mark && i < p->blocks; i++) {
		if (p->block_mark[i] == MT_BLOCK_LOST) {
			t->lost_count++;
			t->lost_bytes += p->block[i].size;
		} else if (p->block_mark[i] == MT_BLOCK_HELD) {
			t->held_count++;
			t->held_bytes += p->block[i].size;
		}
	}
}

void mt_totals_sum(const struct mt_profile *const *profiles, uint32_t count,
		   struct mt_totals *ret_totals)
{
	struct mt_totals t = {.is_exact = true};

	for (uint32_t i = 0; i < count; i++) {
		const struct mt_profile *p = profiles[i];

		add_counters(p, &t);
		add_threads(p, &t);
		add_hists(p, &t);
		add_marks(p, &t);
		t.is_exact &= !p->warning_count;
		if (!i)
			t.life_unit_ns = p->time_resolution_ns;
		else if (t.life_unit_ns != p->time_resolution_ns)
			t.life_unit_ns = 0;
	}
	for (uint32_t k = 0; k < MT_ARRAY_LEN(t.lost); k++)
		t.is_exact &= !t.lost[k];
	t.is_exact &= !t.unplaced_allocs && !t.untracked_allocs && !t.no_block && !t.no_site;
	*ret_totals = t;
}
