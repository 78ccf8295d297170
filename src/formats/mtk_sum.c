/* SPDX-License-Identifier: MIT */
/*
 * Adding up. Unsigned sums may wrap in a damaged file: then the numbers are wrong, but nothing else
 * is. Differences that would be negative (events under way) are shown as 0.
 */
#include "formats/mtk_sum.h"

#include <errno.h>

#include "base/arena.h"

/* Signed sums that stay at the ends of their range. */
static int64_t add_clamped(int64_t a, int64_t b)
{
	int64_t sum;
	if (__builtin_add_overflow(a, b, &sum))
		return b < 0 ? INT64_MIN : INT64_MAX;
	return sum;
}

static uint64_t positive(int64_t v)
{
	return v > 0 ? (uint64_t)v : 0;
}

static int64_t magnitude(int64_t v)
{
	if (v == INT64_MIN)
		return INT64_MAX;
	return v < 0 ? -v : v;
}

/* live bytes of a writer that it has not published; wraps for damaged values */
static int64_t held_back(uint64_t live, int64_t published)
{
	return (int64_t)(live - (uint64_t)published);
}

/* either may be a sum that wrapped below 0 */
static uint64_t minus(uint64_t a, uint64_t b)
{
	return positive((int64_t)(a - b));
}

static void add_counts(struct mt_profile_counts *to, const struct mt_profile_counts *from)
{
	to->allocs += from->allocs;
	to->frees += from->frees;
	to->bytes += from->bytes;
	to->freed_bytes += from->freed_bytes;
	to->temporaries += from->temporaries;
}

/* What is known of a peak that was published in steps. */
struct peak {
	int64_t published;   /* highest published value */
	int64_t unpublished; /* what its writers may hold back, together */
	int64_t sum_of_peaks;
	uint64_t live, bytes; /* now; ever */
};

/*
 * The highest moment lies between `low` and `high`: not below what is live now, nor above the sum
 * of the writers' own peaks, and no further from the published peak than what was held back.
 */
static void bound_peak(const struct peak *k, uint64_t *ret_peak, uint64_t *ret_bound)
{
	uint64_t published = positive(k->published);
	uint64_t low = MT_MAX(k->live, positive(add_clamped(k->published, -k->unpublished)));
	uint64_t high = positive(add_clamped(k->published, k->unpublished));
	high = MT_MIN(high, positive(k->sum_of_peaks));
	high = MT_MIN(high, k->bytes);
	high = MT_MAX(high, low);
	uint64_t peak = MT_MIN(MT_MAX(published, low), high);
	*ret_peak = peak;
	*ret_bound = MT_MAX(high - peak, peak - low);
}

/* Cell numbers grouped by site, in order of number. */
static int group_cells(struct mt_profile *p)
{
	p->cell_by_site = mt_arena_array(p->arena, p->cell_count, sizeof(*p->cell_by_site));
	if (!p->cell_by_site)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->cell_count; i++)
		p->site[p->cell[i].site].cell_count++;
	p->site[0].cell_count = 0;
	uint32_t at = 0;
	for (uint32_t i = 1; i < p->site_count; i++) {
		p->site[i].first_cell = at;
		at += p->site[i].cell_count;
		p->site[i].cell_count = 0;
	}
	for (uint32_t i = 1; i < p->cell_count; i++) {
		struct mt_profile_site *s = &p->site[p->cell[i].site];
		if (p->cell[i].site)
			p->cell_by_site[s->first_cell + s->cell_count++] = i;
	}
	return 0;
}

/* The state of a cell at the process's peak: saved if it changed since, else its present one. */
static void at_peak(const struct mt_state_cell *c, const struct mt_state_header *h,
		    int64_t *ret_bytes, int64_t *ret_count)
{
	if (h->peak_epoch && c->at_peak_epoch == h->peak_epoch) {
		*ret_bytes = c->at_peak_bytes;
		*ret_count = c->at_peak_count;
	} else {
		*ret_bytes = (int64_t)(c->bytes - c->freed_bytes);
		*ret_count = (int64_t)(c->allocs - c->frees);
	}
}

static void add_sample(struct mt_profile *p, uint32_t number)
{
	const struct mt_profile_site *s = &p->site[number];
	for (uint32_t i = 0; p->site_sample && s->regime && i < s->cell_count; i++) {
		const struct mt_profile_sample *c =
			&p->cell_sample[p->cell_by_site[s->first_cell + i]];
		struct mt_profile_sample *to = &p->site_sample[number];
		to->allocs += c->allocs;
		to->frees += c->frees;
		mt_estimate_merge(&to->total, &c->total);
		mt_estimate_merge(&to->live, &c->live);
	}
}

/*
 * Where samples found no room: a site that lacks live blocks has some, or its frees are unknown. A
 * sample without a site may be of any of them.
 */
static void mark_missing(struct mt_profile *p, uint64_t no_block, uint64_t no_site)
{
	for (uint32_t i = 1; p->site_sample && i < p->site_count; i++) {
		struct mt_profile_sample *s = &p->site_sample[i];
		uint64_t held = s->live.samples + s->live.certain;
		if (!p->site[i].regime)
			continue;
		s->total.is_least = no_site > 0;
		s->lacks_blocks = no_block && s->allocs > s->frees + held;
		s->live.is_least = no_site || s->lacks_blocks;
	}
}

static void sum_site(struct mt_profile *p, uint32_t number, const struct mt_mtk_raw *raw)
{
	struct mt_profile_site *s = &p->site[number];
	const struct mt_state_site *rs = &raw->site[number];
	struct peak k = {.published = rs->peak_published};
	int64_t peak_bytes = 0, peak_count = 0, bytes, count;
	for (uint32_t i = 0; i < s->cell_count; i++) {
		uint32_t cell = p->cell_by_site[s->first_cell + i];
		const struct mt_state_cell *c = &raw->cell[cell];
		add_counts(&s->counts, &p->cell[cell].counts);
		s->live_count += p->cell[cell].live_count;
		s->live_bytes += p->cell[cell].live_bytes;
		at_peak(c, &raw->header, &bytes, &count);
		peak_bytes = add_clamped(peak_bytes, bytes);
		peak_count = add_clamped(peak_count, count);
		k.sum_of_peaks = add_clamped(k.sum_of_peaks, (int64_t)positive(c->peak_bytes));
		int64_t step = (int64_t)MT_MIN(raw->header.peak_bound_bytes, (uint64_t)INT64_MAX);
		k.unpublished = add_clamped(
			k.unpublished, MT_MAX(step, magnitude(held_back(c->bytes - c->freed_bytes,
									c->published))));
	}
	add_sample(p, number);
	s->at_peak_bytes = positive(peak_bytes);
	s->at_peak_count = positive(peak_count);
	k.live = minus(s->counts.bytes, s->counts.freed_bytes);
	k.bytes = s->counts.bytes;
	if (s->cell_count == 1 && !rs->shared &&
	    rs->cell_count <= 1) /* its own peak is the site's */
		s->peak_bytes = MT_MIN(MT_MAX(positive(k.sum_of_peaks), k.live), k.bytes);
	else
		bound_peak(&k, &s->peak_bytes, &s->peak_bound_bytes);
}

static void sum_custom_heaps(struct mt_profile *p)
{
	for (uint32_t i = 1; i < p->cell_count; i++) {
		uint32_t heap = p->site[p->cell[i].site].heap;
		if (p->cell[i].site && heap >= MT_HEAP_FIRST_CUSTOM)
			add_counts(&p->heap[heap].counts, &p->cell[i].counts);
	}
}

/* What the threads' rows say of live bytes and peaks. Samples are among them, weighed. */
static struct peak sum_rows(const struct mt_profile *p, const struct mt_mtk_raw *raw)
{
	const struct mt_state_header *h = &raw->header;
	int64_t step = (int64_t)MT_MIN(h->peak_bound_bytes, (uint64_t)INT64_MAX);
	struct peak k = {.published = h->peak_bytes};
	uint64_t freed = 0;
	bool reused = false;
	for (uint32_t i = 1; i < p->thread_count; i++) {
		const struct mt_state_thread *t = &raw->thread[i];
		const struct mt_state_totals *sum = &t->totals[MT_CLASS_MALLOC];
		reused |= t->reuse_count > 0;
		k.bytes += sum->bytes;
		freed += sum->freed_bytes;
		k.sum_of_peaks = add_clamped(k.sum_of_peaks, (int64_t)positive(t->peak_bytes));
		if (t->state)
			k.unpublished = add_clamped(
				k.unpublished,
				MT_MAX(step, magnitude(held_back(sum->bytes - sum->freed_bytes,
								 t->published))));
	}
	if (reused && h->threads_seen > 1) /* a row's peak is then of its last thread only */
		k.sum_of_peaks = INT64_MAX;
	k.live = minus(k.bytes, freed);
	return k;
}

static void set_peak(const struct peak *k, const struct mt_state_header *h, uint64_t *ret_peak,
		     uint64_t *ret_bound)
{
	uint64_t peak = MT_MAX(positive(k->published), positive(k->sum_of_peaks));
	*ret_bound = 0;
	if (h->threads_seen <= 1)
		*ret_peak = MT_MIN(MT_MAX(peak, k->live), k->bytes);
	else
		bound_peak(k, ret_peak, ret_bound);
}

static void sum_process(struct mt_profile *p, const struct mt_mtk_raw *raw)
{
	struct peak k = sum_rows(p, raw);
	for (uint32_t i = 1; i < p->thread_count; i++) {
		const struct mt_profile_thread *t = &p->thread[i];
		add_counts(&p->totals, &t->heap[MT_CLASS_MALLOC]);
		for (uint32_t c = MT_CLASS_MALLOC; c <= MT_CLASS_BRK; c++)
			add_counts(&p->heap[c].counts, &t->heap[c]);
		p->reallocs += t->reallocs;
		p->unknown_frees += t->unknown_frees;
		p->failed_allocs += t->failed_allocs;
		p->mismatched_frees += raw->thread[i].mismatched_frees;
	}
	p->live_count = minus(p->totals.allocs, p->totals.frees);
	p->live_bytes = minus(p->totals.bytes, p->totals.freed_bytes);
	set_peak(&k, &raw->header, &p->peak_bytes, &p->peak_bound_bytes);
}

/* A thread's statistics become part of its counters. */
static void add_thread_stats(struct mt_profile *p, uint32_t thread)
{
	const struct mt_profile_stats *st = &p->stats[thread];
	struct mt_profile_thread *t = &p->thread[thread];
	struct mt_profile_counts sum = {0};
	bool had_full = t->heap[MT_CLASS_MALLOC].allocs > 0;
	for (unsigned i = 0; i < MT_PROFILE_SIZES; i++)
		add_counts(&sum, &st->size[i]);
	add_counts(&t->heap[MT_CLASS_MALLOC], &sum);
	add_counts(&p->stats_counts, &sum);
	t->live_bytes = add_clamped(t->live_bytes, st->live_bytes);
	t->peak_bytes = had_full ? MT_MAX(t->peak_bytes, st->peak_bytes) : st->peak_bytes;
}

/* The process's peak in the statistics, by the same rule as that of recorded blocks. */
static void sum_stats_peak(const struct mt_profile *p, const struct mt_mtk_raw *raw,
			   uint64_t *ret_peak, uint64_t *ret_bound)
{
	const struct mt_state_header *h = &raw->header;
	int64_t step = (int64_t)MT_MIN(h->peak_bound_bytes, (uint64_t)INT64_MAX);
	struct peak k = {.published = h->stats_peak_bytes, .bytes = p->stats_counts.bytes};
	bool reused = false;
	for (uint32_t i = 1; i < p->thread_count; i++) {
		const struct mt_profile_stats *st = &p->stats[i];
		reused |= raw->thread[i].reuse_count > 0;
		k.sum_of_peaks = add_clamped(k.sum_of_peaks, (int64_t)positive(st->peak_bytes));
		if (raw->thread[i].state && i < raw->stats_count)
			k.unpublished = add_clamped(
				k.unpublished,
				MT_MAX(step, magnitude(held_back((uint64_t)st->live_bytes,
								 raw->stats[i].published))));
	}
	if (reused && h->threads_seen > 1)
		k.sum_of_peaks = INT64_MAX;
	k.live = minus(p->stats_counts.bytes, p->stats_counts.freed_bytes);
	set_peak(&k, h, ret_peak, ret_bound);
}

/*
 * The highest sum of what was recorded in full at one time and counted at another. With samples,
 * the other peak is one of full blocks and of estimates; without, the sum lies between the higher
 * peak and both added.
 */
static void join_peaks(struct mt_profile *p, uint64_t peak, uint64_t bound, bool has_samples)
{
	uint64_t full = p->peak_bytes, full_bound = p->peak_bound_bytes;
	uint64_t low = MT_MAX(MT_MAX(minus(full, full_bound), minus(peak, bound)), p->live_bytes);
	p->peak_bytes = MT_MAX(MT_MAX(full, peak), low);
	if (has_samples) {
		p->peak_is_estimate = true;
		return;
	}
	p->peak_bound_bytes =
		MT_MAX(minus(full + full_bound + peak + bound, p->peak_bytes), p->peak_bytes - low);
}

/* What was counted without a record joins the totals. */
static void sum_stats(struct mt_profile *p, const struct mt_mtk_raw *raw)
{
	const struct mt_state_header *h = &raw->header;
	bool had_full = p->totals.allocs > 0, has_samples = p->sample_blocks > 0;
	uint64_t peak, bound;
	if (!p->stats)
		return;
	for (uint32_t i = 1; i < p->thread_count; i++) {
		add_thread_stats(p, i);
		has_samples |= p->stats[i].sampled > 0;
	}
	sum_stats_peak(p, raw, &peak, &bound);
	add_counts(&p->totals, &p->stats_counts);
	add_counts(&p->heap[MT_HEAP_MALLOC].counts, &p->stats_counts);
	p->live_count = minus(p->totals.allocs, p->totals.frees);
	p->live_bytes = minus(p->totals.bytes, p->totals.freed_bytes);
	p->heap[MT_HEAP_MALLOC].live_count += minus(p->stats_counts.allocs, p->stats_counts.frees);
	p->heap[MT_HEAP_MALLOC].live_bytes +=
		minus(p->stats_counts.bytes, p->stats_counts.freed_bytes);
	if (had_full) {
		join_peaks(p, peak, bound, has_samples);
		return;
	}
	p->peak_bytes = peak;
	p->peak_bound_bytes = bound;
	p->peak_ns = mt_profile_clock_at(&p->clock, (uint32_t)h->stats_peak_unit);
}

int mt_mtk_sum(struct mt_profile *p, const struct mt_mtk_raw *raw)
{
	int r = group_cells(p);
	if (r)
		return r;
	sum_custom_heaps(p);
	for (uint32_t i = 1; i < p->site_count; i++)
		sum_site(p, i, raw);
	sum_process(p, raw);
	sum_stats(p, raw);
	uint64_t no_block = 0, no_site = 0;
	for (uint32_t i = 1; p->stats && i < p->thread_count; i++) {
		no_block += p->stats[i].no_block;
		no_site += p->stats[i].no_site;
	}
	if (no_block || no_site)
		mark_missing(p, no_block, no_site);
	return 0;
}
