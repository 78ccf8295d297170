/* SPDX-License-Identifier: MIT */
/*
 * Two readings of the recording: the first finds the step at which to stop and that of the highest
 * peak before it, and what is missing in all; the second counts up to there.
 */
#include "formats/mtr_profile.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"
#include "base/units.h"
#include "formats/mtk_time.h"
#include "formats/mtr_events.h"
#include "wire/state.h"

/* What the first reading found. Steps count from 1. */
struct plan {
	uint64_t steps; /* to be counted */
	uint64_t peak_step, peak_bytes;
	uint64_t begin_ns, end_ns; /* of the first and last event, since start */
	struct mt_mtr_losses whole;
};

struct counting {
	struct mt_profile *p;
	struct mt_map cell_of;  /* site << 32 | thread -> cell */
	uint32_t *last;         /* owned; by thread: sequence of its last allocation */
	int64_t *site_live;     /* owned; bytes now, by site */
	int64_t *site_count;    /* owned; blocks now, by site */
	uint64_t unknown_cells; /* steps of a cell that is not in the profile */
};

/* ---- the first reading ---- */

static bool is_past(struct mt_profile *p, const struct mt_mtr_when *when, uint64_t unit)
{
	return when->kind == MT_MTR_AT_TIME && mt_profile_clock_ns(&p->clock, unit) > when->ns;
}

static int find_steps(const struct mt_mtr *m, struct mt_profile *p, const struct mt_mtr_when *when,
		      struct plan *ret)
{
	mt_auto(mt_mtr_events) struct mt_mtr_events *e = mt_mtr_events_new(m);
	struct mt_mtr_step s;
	struct plan plan = {0};
	uint64_t step = 0, live = 0, first = UINT64_MAX, last = 0;
	bool past = false;
	int r;

	if (!e)
		return -ENOMEM;
	while ((r = mt_mtr_events_next(e, &s)) == 1) {
		if (s.kind != MT_MTR_STEP_LISTED)
			first = MT_MIN(first, s.unit);
		last = MT_MAX(last, s.unit);
		past = past || is_past(p, when, s.unit);
		if (past)
			continue; /* only for what is missing */
		step++;
		live -= s.gone.size;
		live += s.made.size;
		if (live > plan.peak_bytes) {
			plan.peak_bytes = live;
			plan.peak_step = step;
		}
	}
	plan.steps = when->kind == MT_MTR_AT_PEAK ? plan.peak_step : step;
	plan.whole = mt_mtr_events_losses(e);
	plan.begin_ns = first <= last ? mt_profile_clock_ns(&p->clock, first) : 0;
	plan.end_ns = last ? mt_profile_clock_ns(&p->clock, last) : 0;
	*ret = plan;
	return r;
}

static int check_range(const struct mt_mtr *m, const struct mt_profile *p,
		       const struct mt_mtr_when *when, const struct plan *plan, struct mt_err *err)
{
	uint64_t end_ns = MT_MAX(p->duration_ns, plan->end_ns);

	if (when->kind != MT_MTR_AT_TIME)
		return 0;
	if (m->header.cut_blocks && mt_mtk_time_is_behind(plan->begin_ns, when->ns))
		return mt_err_set(err, -ERANGE,
				  "'%s' has nothing at %.3f s: its begin gave way to what came "
				  "later, and it goes from %.3f to %.3f s after the start",
				  m->name, (double)when->ns / 1e9, (double)plan->begin_ns / 1e9,
				  (double)end_ns / 1e9);
	if (!mt_mtk_time_is_behind(when->ns, end_ns))
		return 0;
	return mt_err_set(err, -ERANGE,
			  "'%s' has nothing at %.3f s: it lasts from 0 to %.3f s after the start",
			  m->name, (double)when->ns / 1e9, (double)end_ns / 1e9);
}

/* ---- everything back to nothing ---- */

static void clear_thread(struct mt_profile_thread *t, bool keeps_others)
{
	for (uint32_t c = MT_CLASS_MALLOC; c <= (keeps_others ? 0u : MT_CLASS_CUSTOM); c++)
		t->heap[c] = (struct mt_profile_counts){0};
	t->live_bytes = t->peak_bytes = 0;
	t->reallocs = t->realloc_grown = t->temporaries = 0;
	t->unplaced_allocs = t->unplaced_bytes = t->untracked_allocs = t->untracked_bytes = 0;
	t->filtered_allocs = t->filtered_bytes = t->nested_frees = 0;
}

static void clear_cell(struct mt_profile *p, struct mt_profile_cell *c, bool keeps_others)
{
	if (keeps_others && p->site[c->site].heap)
		return;
	c->counts = (struct mt_profile_counts){0};
	c->live_count = c->live_bytes = 0;
	memset(c->lifetime, 0, sizeof(c->lifetime));
	if (c->hist)
		memset(p->hist[c->hist], 0, sizeof(p->hist[c->hist]));
}

static void clear(struct mt_profile *p, bool keeps_others)
{
	for (uint32_t i = 1; i < p->thread_count; i++)
		clear_thread(&p->thread[i], keeps_others);
	for (uint32_t i = 1; i < p->cell_count; i++)
		clear_cell(p, &p->cell[i], keeps_others);
	for (uint32_t i = 1; i < p->site_count; i++) {
		struct mt_profile_site *s = &p->site[i];

		if (keeps_others && s->heap)
			continue;
		s->counts = (struct mt_profile_counts){0};
		s->live_count = s->live_bytes = s->peak_bytes = s->peak_bound_bytes = 0;
		s->at_peak_bytes = s->at_peak_count = 0;
	}
	for (uint32_t i = 0; i < (keeps_others ? 1 : p->heap_count); i++) {
		p->heap[i].counts = (struct mt_profile_counts){0};
		p->heap[i].live_count = p->heap[i].live_bytes = 0;
	}
	p->totals = p->stats_counts = (struct mt_profile_counts){0};
	p->reallocs = 0;
	p->notes &= ~(uint64_t)MT_NOTE_PEAK_BOUNDED;
}

/*
 * What was counted or sampled in other modes than record is in no recording: its sites become empty
 * ones, but for those of custom heaps that are kept.
 */
static void clear_other_modes(struct mt_profile *p, bool keeps_others)
{
	bool has_samples = false;

	p->stats = NULL;
	p->big_count = 0;
	p->sample_blocks = 0;
	p->peak_is_estimate = false;
	for (uint32_t i = 1; i < p->site_count; i++) {
		if (!keeps_others || !p->site[i].heap)
			p->site[i].regime = 0;
		has_samples |= p->site[i].regime != 0;
	}
	for (uint32_t i = 1; p->site_sample && i < p->site_count; i++)
		if (!p->site[i].regime)
			p->site_sample[i] = (struct mt_profile_sample){0};
	for (uint32_t i = 1; p->cell_sample && i < p->cell_count; i++)
		if (!p->site[p->cell[i].site].regime)
			p->cell_sample[i] = (struct mt_profile_sample){0};
	if (has_samples)
		return;
	p->site_sample = p->cell_sample = NULL;
	p->regime_count = MT_MIN(p->regime_count, 1);
	p->interval_bytes = p->every = 0;
}

static void leave_later_changes_out(struct mt_profile *p)
{
	while (p->change_count && p->change[p->change_count - 1].ns > p->duration_ns)
		p->change_count--;
}

/* ---- the second reading ---- */

static void count_made(struct counting *c, const struct mt_mtr_step *s)
{
	struct mt_profile *p = c->p;
	struct mt_profile_cell *cell = &p->cell[s->made.cell];
	struct mt_profile_thread *t = &p->thread[cell->thread];
	uint32_t bucket = mt_state_size_bucket(s->made.size), site = cell->site;

	cell->counts.allocs++;
	cell->counts.bytes += s->made.size;
	if (cell->hist && p->hist[cell->hist][bucket] < UINT32_MAX)
		p->hist[cell->hist][bucket]++;
	t->heap[MT_CLASS_MALLOC].allocs++;
	t->heap[MT_CLASS_MALLOC].bytes += s->made.size;
	t->live_bytes += (int64_t)s->made.size;
	t->peak_bytes = MT_MAX(t->peak_bytes, t->live_bytes);
	c->last[cell->thread] = s->made.sequence;
	c->site_count[site]++;
	c->site_live[site] += (int64_t)s->made.size;
	if (c->site_live[site] > (int64_t)p->site[site].peak_bytes)
		p->site[site].peak_bytes = (uint64_t)c->site_live[site];
}

static void count_gone(struct counting *c, const struct mt_mtr_step *s)
{
	struct mt_profile *p = c->p;
	uint32_t site = p->cell[s->gone.cell].site;
	uint64_t number = s->gone.cell;
	struct mt_profile_thread *t =
		&p->thread[s->thread < p->thread_count ? s->thread : s->gone.thread];
	struct mt_profile_cell *cell;
	uint64_t age = s->unit - MT_MIN(s->unit, s->gone.born);
	bool is_temporary = s->kind == MT_MTR_STEP_FREE && s->gone.thread == s->thread &&
			    s->gone.sequence == c->last[s->gone.thread];

	mt_map_get(&c->cell_of, (uint64_t)site << 32 | s->thread, &number);
	cell = &p->cell[number];
	cell->counts.frees++;
	cell->counts.freed_bytes += s->gone.size;
	cell->counts.temporaries += is_temporary;
	cell->lifetime[mt_state_life_bucket((uint32_t)MT_MIN(age, UINT32_MAX))]++;
	t->heap[MT_CLASS_MALLOC].frees++;
	t->heap[MT_CLASS_MALLOC].freed_bytes += s->gone.size;
	t->heap[MT_CLASS_MALLOC].temporaries += is_temporary;
	t->temporaries += is_temporary;
	t->live_bytes -= (int64_t)s->gone.size;
	if (s->kind == MT_MTR_STEP_REALLOC) {
		t->reallocs++;
		t->realloc_grown += s->made.size > s->gone.size;
	}
	c->site_count[site]--;
	c->site_live[site] -= (int64_t)s->gone.size;
}

/* The cell, and so its site and thread, are in the profile. */
static bool is_usable(const struct mt_profile *p, const struct mt_mtr_live *b)
{
	return b->cell && b->cell < p->cell_count && p->cell[b->cell].site &&
	       p->cell[b->cell].thread == b->thread && b->thread < p->thread_count;
}

static void count_step(struct counting *c, const struct mt_mtr_step *s)
{
	if (s->gone.cell && is_usable(c->p, &s->gone))
		count_gone(c, s);
	if (s->made.cell && is_usable(c->p, &s->made))
		count_made(c, s);
	else
		c->unknown_cells += s->made.cell != 0;
}

static void note_peak(struct counting *c, uint64_t unit)
{
	struct mt_profile *p = c->p;

	for (uint32_t i = 1; i < p->site_count; i++) {
		if (!c->site_count[i])
			continue;
		p->site[i].at_peak_bytes = (uint64_t)MT_MAX(c->site_live[i], 0);
		p->site[i].at_peak_count = (uint64_t)MT_MAX(c->site_count[i], 0);
	}
	p->peak_ns = mt_profile_clock_ns(&p->clock, unit);
}

static int take_blocks(struct counting *c, const struct mt_mtr_events *e, bool keeps_others)
{
	struct mt_profile *p = c->p;
	uint32_t slots;
	const struct mt_mtr_live *live = mt_mtr_events_live(e, &slots);
	uint64_t count = 0, others = 0;
	struct mt_profile_block *block;

	for (uint32_t i = 0; i < slots; i++)
		count += live[i].cell && is_usable(p, &live[i]);
	for (uint64_t i = 0; keeps_others && i < p->blocks; i++)
		others += p->block[i].heap != 0;
	block = mt_arena_array(p->arena, count + others + 1, sizeof(*block));
	if (!block)
		return -ENOMEM;
	count = 0;
	for (uint64_t i = 0; others && i < p->blocks; i++)
		if (p->block[i].heap)
			block[count++] = p->block[i];
	p->block_count = p->block_bytes = 0;
	for (uint32_t i = 0; i < slots; i++) {
		struct mt_profile_cell *cell = &p->cell[live[i].cell];

		if (!live[i].cell || !is_usable(p, &live[i]))
			continue;
		block[count++] = (struct mt_profile_block){
			.size = MT_MIN(live[i].size, (1ull << 48) - 1),
			.born = (uint32_t)live[i].born,
			.cell = live[i].cell,
		};
		cell->live_count++;
		cell->live_bytes += live[i].size;
		p->block_count++;
		p->block_bytes += live[i].size;
	}
	p->block = block;
	p->blocks = count;
	return 0;
}

static void add_counts(struct mt_profile_counts *to, const struct mt_profile_counts *from)
{
	to->allocs += from->allocs;
	to->frees += from->frees;
	to->bytes += from->bytes;
	to->freed_bytes += from->freed_bytes;
	to->temporaries += from->temporaries;
}

static void sum(struct mt_profile *p)
{
	for (uint32_t i = 1; i < p->cell_count; i++) {
		struct mt_profile_cell *c = &p->cell[i];
		struct mt_profile_site *s = &p->site[c->site];

		if (!c->site || s->heap)
			continue;
		add_counts(&s->counts, &c->counts);
		s->live_count += c->live_count;
		s->live_bytes += c->live_bytes;
	}
	for (uint32_t i = 1; i < p->thread_count; i++) {
		add_counts(&p->totals, &p->thread[i].heap[MT_CLASS_MALLOC]);
		p->reallocs += p->thread[i].reallocs;
	}
	p->heap[MT_HEAP_MALLOC].counts = p->totals;
	p->heap[MT_HEAP_MALLOC].live_count = p->block_count;
	p->heap[MT_HEAP_MALLOC].live_bytes = p->block_bytes;
	p->live_count = p->block_count;
	p->live_bytes = p->block_bytes;
}

static int count_all(struct counting *c, const struct mt_mtr *m, const struct plan *plan,
		     bool keeps_others)
{
	mt_auto(mt_mtr_events) struct mt_mtr_events *e = mt_mtr_events_new(m);
	struct mt_profile *p = c->p;
	struct mt_mtr_step s = {.unit = 0};
	int r = e ? 0 : -ENOMEM;

	for (uint64_t i = 1; i <= plan->steps && r >= 0; i++) {
		r = mt_mtr_events_next(e, &s);
		if (r <= 0)
			break;
		count_step(c, &s);
		if (i == plan->peak_step)
			note_peak(c, s.unit);
	}
	if (r < 0)
		return r;
	p->peak_bytes = plan->peak_bytes;
	p->peak_bound_bytes = 0;
	r = take_blocks(c, e, keeps_others);
	if (!r)
		sum(p);
	return r;
}

static int begin(struct counting *c)
{
	const struct mt_profile *p = c->p;

	c->last = mt_alloc_zero((size_t)p->thread_count + 1, sizeof(*c->last));
	c->site_live = mt_alloc_zero((size_t)p->site_count + 1, sizeof(*c->site_live));
	c->site_count = mt_alloc_zero((size_t)p->site_count + 1, sizeof(*c->site_count));
	if (!c->last || !c->site_live || !c->site_count)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->cell_count; i++)
		if (p->cell[i].site &&
		    mt_map_set(&c->cell_of, (uint64_t)p->cell[i].site << 32 | p->cell[i].thread, i))
			return -ENOMEM;
	return 0;
}

static void counting_done(struct counting *c)
{
	mt_map_done(&c->cell_of);
	free(c->last);
	free(c->site_live);
	free(c->site_count);
}

/* ---- what is missing ---- */

/* Events that the tables counted and that could be in a recording. */
static void expected(const struct mt_profile *p, uint64_t *ret_allocs, uint64_t *ret_frees)
{
	*ret_allocs = *ret_frees = 0;
	for (uint32_t i = 1; i < p->cell_count; i++) {
		const struct mt_profile_cell *c = &p->cell[i];

		if (!c->site || p->site[c->site].heap || p->site[c->site].regime)
			continue;
		*ret_allocs += c->counts.allocs;
		*ret_frees += c->counts.frees;
	}
}

/* Live blocks of the kind that a recording has. */
static uint64_t recorded_blocks(const struct mt_profile *p)
{
	uint64_t count = 0;

	for (uint64_t i = 0; i < p->blocks; i++)
		count += p->block[i].cell && !p->block[i].heap &&
			 !p->site[p->cell[p->block[i].cell].site].regime;
	return count;
}

/* When the last list of live blocks was made. */
static uint32_t list_unit(const struct mt_mtr *m)
{
	uint32_t unit = 0;

	for (size_t i = 0; i < m->blocks && m->block[i].head.kind == MT_STREAM_LIVE; i++)
		unit = MT_MAX(unit, m->block[i].head.first_unit);
	return unit;
}

/* For want of a buffer: behind the size limit nothing is kept, however fast the writer is. */
static uint64_t dropped_events(const struct mt_mtr *m, const struct mt_mtr_losses *whole)
{
	return m->is_limited ? whole->dropped_events : MT_MAX(whole->dropped_events, m->end_lost);
}

static int read_losses(const struct mt_mtr *m, struct mt_mtr_losses *ret_whole)
{
	mt_auto(mt_mtr_events) struct mt_mtr_events *e = mt_mtr_events_new(m);
	struct mt_mtr_step s;
	int r;

	if (!e)
		return -ENOMEM;
	while ((r = mt_mtr_events_next(e, &s)) == 1)
		;
	if (!r)
		*ret_whole = mt_mtr_events_losses(e);
	return r;
}

int mt_mtr_warn_beside(const struct mt_mtr *m, struct mt_profile *p)
{
	struct mt_mtr_losses whole;
	uint64_t allocs, frees;
	int r;

	if (!m->end_lost && !m->is_limited)
		return 0;
	r = read_losses(m, &whole);
	if (r)
		return r;
	expected(p, &allocs, &frees);
	if (whole.allocs < allocs || whole.frees < frees)
		mt_profile_warn(p,
				"the recording beside this state lacks %s of %s allocations and %s "
				"of %s frees, as %s; this report counts them all",
				MT_COUNT((allocs - MT_MIN(allocs, whole.allocs))), MT_COUNT(allocs),
				MT_COUNT((frees - MT_MIN(frees, whole.frees))), MT_COUNT(frees),
				!m->is_limited ? "the writer could not keep up"
				: dropped_events(m, &whole)
					? "the writer could not keep up and the size "
					  "limit was reached"
					: "it reached its size limit");
	return 0;
}

void mt_mtr_warn(const struct mt_mtr *m, struct mt_profile *p, const struct mt_mtr_losses *whole)
{
	uint64_t allocs, frees;

	expected(p, &allocs, &frees);
	bool has_list = m->blocks && m->block[0].head.kind == MT_STREAM_LIVE;

	if (has_list && (whole->allocs < allocs || whole->frees < frees))
		mt_profile_warn(p,
				"the recording begins later than the program: it has %s of %s "
				"allocations and %s of %s frees, and knows what is live from "
				"%.3f s after the start on",
				MT_COUNT(whole->allocs), MT_COUNT(allocs), MT_COUNT(whole->frees),
				MT_COUNT(frees),
				(double)mt_profile_clock_at(&p->clock, list_unit(m)) / 1e9);
	else if (whole->allocs < allocs || whole->frees < frees)
		mt_profile_warn(
			p,
			"the recording lacks %s of %s allocations and %s of %s frees: "
			"what is live, and peaks, may be wrong after the first that is missing",
			MT_COUNT((allocs - MT_MIN(allocs, whole->allocs))), MT_COUNT(allocs),
			MT_COUNT((frees - MT_MIN(frees, whole->frees))), MT_COUNT(frees));
	if (has_list && whole->allocs + whole->listed - whole->frees != recorded_blocks(p))
		mt_profile_warn(p,
				"at its end the recording has %s live blocks, the state file %s: "
				"events are missing in between",
				MT_COUNT((whole->allocs + whole->listed - whole->frees)),
				MT_COUNT(recorded_blocks(p)));
	if (m->header.cut_blocks)
		mt_profile_warn(p, "the recording's begin gave way to what came later (%s bytes)",
				MT_COUNT(m->header.cut_bytes));
	if (m->header.cut_blocks && !has_list)
		mt_profile_warn(p,
				"blocks that are older than what the recording still has are not "
				"in it: there was no room for their list within its size limit");
	if (m->is_limited)
		mt_profile_warn(p, "the recording reached its size limit");
	if (dropped_events(m, whole))
		mt_profile_warn(p, "%s events were dropped: the writer could not keep up",
				MT_COUNT(dropped_events(m, whole)));
	if (whole->buffers)
		mt_profile_warn(p, "%s buffers of events are missing from the recording",
				MT_COUNT(whole->buffers));
	if (m->damaged_bytes || whole->damaged)
		mt_profile_warn(p, "the recording is damaged: %s bytes, %s blocks",
				MT_COUNT(m->damaged_bytes), MT_COUNT(whole->damaged));
	if (m->cut_bytes)
		mt_profile_warn(p, "the recording is cut: its last %s bytes are no whole block",
				MT_COUNT(m->cut_bytes));
	if (whole->ambiguous)
		mt_profile_warn(p, "%s blocks could not be told from older ones",
				MT_COUNT(whole->ambiguous));
}

static void warn_left_out(struct mt_profile *p)
{
	bool others = false;
	uint64_t stackless = 0;

	for (uint32_t i = 1; i < p->heap_count; i++)
		others |= p->heap[i].counts.allocs != 0;
	for (uint32_t i = 1; i < p->thread_count; i++)
		stackless += p->thread[i].unplaced_allocs + p->thread[i].filtered_allocs;
	if (others)
		mt_profile_warn(p, "mappings, the program break and custom heaps are not in a "
				   "recording: left out at this moment");
	if (stackless)
		mt_profile_warn(p,
				"%s allocations in all have no call stack (by choice of options, "
				"or for want of room) and are not in the recording",
				MT_COUNT(stackless));
}

static void warn_other_modes(struct mt_profile *p)
{
	const struct mt_profile_counts *c = &p->stats_counts;

	if (c->allocs || c->frees)
		mt_profile_warn(p,
				"%s allocations and %s frees in all were made in statistics or "
				"sampling mode and are not in the recording: left out",
				MT_COUNT(c->allocs), MT_COUNT(c->frees));
}

bool mt_mtr_belongs_to(const struct mt_mtr *m, const struct mt_profile *p)
{
	const struct mt_stream_header *h = &m->header;

	return h->pid == p->pid && h->proc_start == p->proc_start_ticks &&
	       h->wall_start_ns == p->wall_start_ns &&
	       !memcmp(h->boot_id, p->boot_id, sizeof(h->boot_id));
}

int mt_mtr_to_profile(const struct mt_mtr *m, struct mt_profile *p, const struct mt_mtr_when *when,
		      struct mt_err *err)
{
	struct counting c = {.p = p};
	bool keeps_others = when->kind == MT_MTR_AT_END;
	struct plan plan;
	int r;

	if (!mt_mtr_belongs_to(m, p))
		return mt_err_set(err, -EINVAL,
				  "the recording '%s' is of another process or program than the "
				  "state file beside it",
				  m->name);
	r = find_steps(m, p, when, &plan);
	if (!r && check_range(m, p, when, &plan, err))
		return -ERANGE;
	if (!r)
		r = begin(&c);
	if (!r) {
		mt_mtr_warn(m, p, &plan.whole);
		warn_other_modes(p);
		if (!keeps_others)
			warn_left_out(p);
		clear(p, keeps_others);
		clear_other_modes(p, keeps_others);
		r = count_all(&c, m, &plan, keeps_others);
		if (when->kind != MT_MTR_AT_END) {
			p->end_kind = MT_END_SNAPSHOT;
			p->end_code = 0;
		}
		if (when->kind == MT_MTR_AT_PEAK)
			p->duration_ns = p->peak_ns;
		else if (when->kind == MT_MTR_AT_TIME)
			p->duration_ns = MT_MIN(p->duration_ns, when->ns);
		leave_later_changes_out(p);
	}
	if (!r && c.unknown_cells)
		mt_profile_warn(p, "%s allocations of the recording belong to no call stack",
				MT_COUNT(c.unknown_cells));
	counting_done(&c);
	return r ? mt_err_set_errno(err, r, "cannot read '%s'", m->name) : 0;
}
