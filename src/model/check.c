/* SPDX-License-Identifier: MIT */
/*
 * Do the tables of a profile agree? Each count is kept in two or three places by different writers
 * of the tracker, so a difference shows a lost or doubled event, or a damaged file.
 */
#include "model/profile.h"

#include "base/units.h"

/* Of the malloc heap, as one kind of table tells it. */
struct sums {
	uint64_t allocs, frees, bytes, freed_bytes;
};

/* What the tables were too full to hold. */
struct gaps {
	uint64_t unplaced_allocs, unplaced_bytes; /* in threads, not in cells; filtered ones too */
	uint64_t untracked_allocs, untracked_bytes; /* in cells, not in blocks */
	uint64_t no_block;                          /* samples in cells, not in blocks */
	uint64_t nested_frees;                      /* gone from blocks, live by the counters */
};

static struct sums sum_cells(const struct mt_profile *p)
{
	struct sums s = {0};
	for (uint32_t i = 1; i < p->cell_count; i++) {
		const struct mt_profile_cell *c = &p->cell[i];
		if (!c->site || p->site[c->site].heap || p->site[c->site].regime)
			continue;
		s.allocs += c->counts.allocs;
		s.frees += c->counts.frees;
		s.bytes += c->counts.bytes;
		s.freed_bytes += c->counts.freed_bytes;
	}
	return s;
}

static struct gaps sum_gaps(const struct mt_profile *p)
{
	struct gaps g = {0};
	for (uint32_t i = 1; i < p->thread_count; i++) {
		g.unplaced_allocs += p->thread[i].unplaced_allocs + p->thread[i].filtered_allocs;
		g.unplaced_bytes += p->thread[i].unplaced_bytes + p->thread[i].filtered_bytes;
		g.untracked_allocs += p->thread[i].untracked_allocs;
		g.nested_frees += p->thread[i].nested_frees;
		g.untracked_bytes += p->thread[i].untracked_bytes;
		g.no_block += p->stats ? p->stats[i].no_block : 0;
	}
	/* blocks of check mode may have no call stack, and then they have no site */
	if (p->mode == MT_PROFILE_MODE_CHECK) {
		g.unplaced_allocs = p->totals.allocs;
		g.unplaced_bytes = p->totals.bytes;
	}
	return g;
}

/* Whether low - slack <= value <= high + slack, in numbers that may wrap. */
static bool within(uint64_t value, uint64_t low, uint64_t high, uint64_t slack)
{
	uint64_t floor = low > slack ? low - slack : 0;
	uint64_t ceiling = high + slack < high ? UINT64_MAX : high + slack;
	return value >= floor && value <= ceiling;
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

/* What the threads counted of blocks that were recorded one by one. */
static struct mt_profile_counts recorded(const struct mt_profile *p)
{
	return (struct mt_profile_counts){
		p->totals.allocs - p->stats_counts.allocs,
		p->totals.frees - p->stats_counts.frees,
		p->totals.bytes - p->stats_counts.bytes,
		p->totals.freed_bytes - p->stats_counts.freed_bytes,
		0,
	};
}

static uint32_t check_cells(struct mt_profile *p, const struct sums *cells, const struct gaps *g,
			    uint64_t in_flight)
{
	const struct mt_profile_counts sum = recorded(p), *t = &sum;
	uint32_t found = 0;
	if (!within(cells->allocs, minus(t->allocs, g->unplaced_allocs), t->allocs, in_flight)) {
		mt_profile_warn(p, "the sites hold %s allocations, the threads counted %s",
				MT_COUNT(cells->allocs), MT_COUNT(t->allocs));
		found++;
	} else if (!in_flight &&
		   !within(cells->bytes, minus(t->bytes, g->unplaced_bytes), t->bytes, 0)) {
		mt_profile_warn(p, "the sites hold %s allocated bytes, the threads counted %s",
				MT_COUNT(cells->bytes), MT_COUNT(t->bytes));
		found++;
	}
	if (!within(cells->frees, minus(t->frees, g->unplaced_allocs), t->frees, in_flight)) {
		mt_profile_warn(p, "the sites hold %s frees, the threads counted %s",
				MT_COUNT(cells->frees), MT_COUNT(t->frees));
		found++;
	} else if (!in_flight &&
		   !within(cells->freed_bytes, minus(t->freed_bytes, g->unplaced_bytes),
			   t->freed_bytes, 0)) {
		mt_profile_warn(p, "the sites hold %s freed bytes, the threads counted %s",
				MT_COUNT(cells->freed_bytes), MT_COUNT(t->freed_bytes));
		found++;
	}
	return found;
}

static uint32_t check_blocks(struct mt_profile *p, const struct gaps *g, uint64_t in_flight)
{
	const struct mt_profile_counts t = recorded(p);
	uint64_t live_count = minus(t.allocs, t.frees), live_bytes = minus(t.bytes, t.freed_bytes);
	/* an untracked block is missing from the table; its free cannot be told from an unknown one
	 */
	if (!within(p->block_count, minus(live_count, g->untracked_allocs + g->nested_frees),
		    live_count, in_flight)) {
		mt_profile_warn(p, "the block table holds %s live blocks, by the counters it is %s",
				MT_COUNT(p->block_count), MT_COUNT(live_count));
		return 1;
	}
	if (!in_flight && !g->nested_frees &&
	    !within(p->block_bytes, minus(live_bytes, g->untracked_bytes), live_bytes, 0)) {
		mt_profile_warn(p, "the block table holds %s live bytes, by the counters it is %s",
				MT_COUNT(p->block_bytes), MT_COUNT(live_bytes));
		return 1;
	}
	return 0;
}

/* Samples are in the cells, in the block table and in the statistics of their thread. */
static uint32_t check_samples(struct mt_profile *p, const struct gaps *g, uint64_t in_flight)
{
	uint64_t allocs = 0, frees = 0, counted = 0;
	uint32_t found = 0;
	for (uint32_t i = 1; p->cell_sample && i < p->cell_count; i++) {
		const struct mt_profile_site *s = &p->site[p->cell[i].site];
		if (!s->regime || s->heap)
			continue;
		allocs += p->cell_sample[i].allocs;
		frees += p->cell_sample[i].frees;
	}
	for (uint32_t i = 1; p->stats && i < p->thread_count; i++)
		counted += p->stats[i].sampled;
	if (!within(p->sample_blocks, minus(minus(allocs, frees), g->no_block + g->nested_frees),
		    minus(allocs, frees), in_flight)) {
		mt_profile_warn(p,
				"the block table holds %s live samples, by the counters it is %s",
				MT_COUNT(p->sample_blocks), MT_COUNT(minus(allocs, frees)));
		found++;
	}
	/* fewer: filters leave some out */
	if (p->stats && !within(allocs, 0, counted, in_flight)) {
		mt_profile_warn(p, "the sites hold %s samples, the threads counted %s",
				MT_COUNT(allocs), MT_COUNT(counted));
		found++;
	}
	return found;
}

uint32_t mt_profile_check(struct mt_profile *p, uint64_t in_flight)
{
	struct sums cells = sum_cells(p);
	struct gaps gaps = sum_gaps(p);
	return check_cells(p, &cells, &gaps, in_flight) + check_blocks(p, &gaps, in_flight) +
	       check_samples(p, &gaps, in_flight);
}
