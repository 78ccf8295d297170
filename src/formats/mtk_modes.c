/* SPDX-License-Identifier: MIT */
/*
 * Samples, statistics and changes of a state file. Invariant as in mtk_fill.c: no index goes into
 * the profile unchecked. Numbers may be anything: they are only summed.
 */
#include "formats/mtk_modes.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"

_Static_assert((int)MT_SAMPLING_ALL == (int)MT_REGIME_ALL &&
		       (int)MT_SAMPLING_POISSON == (int)MT_REGIME_BYTES &&
		       (int)MT_SAMPLING_EVERY == (int)MT_REGIME_EVERY,
	       "the file's numbers");

static uint64_t rounded(double v)
{
	return !(v > 0) ? 0 : v >= 0x1p64 ? UINT64_MAX : (uint64_t)(v + 0.5);
}

/* Of two words, low first. */
static double wide(const uint64_t words[2])
{
	return (double)words[1] * 0x1p64 + (double)words[0];
}

/* ---- regimes ---- */

static bool is_usable(const struct mt_state_regime *g)
{
	return g->kind == MT_REGIME_ALL || (g->kind == MT_REGIME_BYTES && g->interval_bytes) ||
	       (g->kind == MT_REGIME_EVERY && g->every);
}

int mt_mtk_fill_regimes(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	uint32_t count = MT_MIN(rd->raw.regime_count, (uint32_t)MT_REGIMES_MAX);
	p->regime = mt_arena_array(p->arena, count, sizeof(*p->regime));
	if (!p->regime)
		return -ENOMEM;
	p->regime_count = count;
	for (uint32_t i = 1; i < count; i++) {
		const struct mt_state_regime *g = &rd->raw.regime[i];
		if (!is_usable(g)) {
			rd->damage[MT_MTK_BAD_REGIME]++;
			continue;
		}
		p->regime[i] = (struct mt_profile_regime){
			.sampling = {(enum mt_sampling_kind)g->kind, g->interval_bytes, g->every},
			.first_ns = mt_profile_clock_at(&rd->time.clock, g->first_unit),
		};
	}
	return 0;
}

/* ---- samples ---- */

static void fill_sample(struct mt_mtk_reader *rd, uint32_t cell, const struct mt_sampling *how)
{
	struct mt_profile_cell *c = &rd->profile->cell[cell];
	struct mt_profile_sample *s = &rd->profile->cell_sample[cell];
	const struct mt_state_sampled *raw = rd->raw.sampled;
	s->allocs = c->counts.allocs;
	s->frees = c->counts.frees;
	mt_estimate_expect(&s->total, how);
	mt_estimate_expect(&s->live, how);
	if (cell >= rd->raw.sampled_count) {
		rd->damage[MT_MTK_BAD_SAMPLED]++;
		return;
	}
	raw += cell;
	s->total.samples = s->allocs;
	s->total.bytes = (double)c->counts.bytes + raw->bytes_rest_q16 / 65536.0;
	s->total.count = wide(raw->count_q16) / 65536.0;
	s->total.seen_bytes = (double)raw->sample_bytes;
	s->total.bytes_variance = wide(raw->bytes_variance);
	s->total.count_variance = wide(raw->count_variance);
	c->counts.allocs = rounded(s->total.count);
	c->counts.frees = rounded(wide(raw->freed_count_q16) / 65536.0);
}

/*
 * The thread's totals have samples as events and their estimated bytes among them, so that the
 * process's peak is one of both. Here they are taken out again: the statistics count those blocks.
 */
static void take_out(struct mt_mtk_reader *rd, uint32_t cell)
{
	const struct mt_profile_cell *c = &rd->profile->cell[cell];
	struct mt_profile_thread *t = &rd->profile->thread[c->thread];
	struct mt_profile_counts *sum = &t->heap[MT_CLASS_MALLOC];
	sum->allocs -= c->counts.allocs;
	sum->frees -= c->counts.frees;
	sum->bytes -= c->counts.bytes;
	sum->freed_bytes -= c->counts.freed_bytes;
	sum->temporaries -= c->counts.temporaries;
	t->temporaries -= c->counts.temporaries;
	t->live_bytes = (int64_t)(sum->bytes - sum->freed_bytes);
}

int mt_mtk_fill_samples(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	if (p->regime_count < 2)
		return 0;
	p->site_sample = mt_arena_array(p->arena, p->site_count, sizeof(*p->site_sample));
	p->cell_sample = mt_arena_array(p->arena, p->cell_count, sizeof(*p->cell_sample));
	if (!p->site_sample || !p->cell_sample)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->cell_count; i++) {
		const struct mt_profile_site *s = &p->site[p->cell[i].site];
		if (!s->regime)
			continue;
		if (s->heap == MT_HEAP_MALLOC)
			take_out(rd, i);
		fill_sample(rd, i, &p->regime[s->regime].sampling);
	}
	return 0;
}

void mt_mtk_place_sample(struct mt_mtk_reader *rd, const struct mt_profile_block *b)
{
	struct mt_profile *p = rd->profile;
	mt_estimate_add(&p->cell_sample[b->cell].live, mt_profile_sampling(p, b), b->size);
	p->sample_blocks += b->heap == MT_HEAP_MALLOC;
}

void mt_mtk_close_samples(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	for (uint32_t i = 1; p->cell_sample && i < p->cell_count; i++) {
		struct mt_profile_cell *c = &p->cell[i];
		const struct mt_profile_site *s = &p->site[c->site];
		if (!s->regime)
			continue;
		c->live_count = rounded(p->cell_sample[i].live.count);
		c->live_bytes = rounded(p->cell_sample[i].live.bytes);
		if (s->heap == MT_HEAP_MALLOC && p->stats)
			continue; /* known exactly */
		p->heap[s->heap].live_count += c->live_count;
		p->heap[s->heap].live_bytes += c->live_bytes;
	}
}

/* ---- statistics ---- */

static void fill_stats(struct mt_profile_stats *to, const struct mt_state_stats *s)
{
	to->live_bytes = s->live_bytes;
	to->peak_bytes = s->peak_bytes;
	to->sampled = s->sampled;
	to->no_block = s->no_block;
	to->no_site = s->no_site;
	to->left_by_size = s->left_by_size;
	to->left_by_module = s->left_by_module;
	for (unsigned i = 0; i < MT_PROFILE_SIZES; i++)
		to->size[i] = (struct mt_profile_counts){
			s->size_class[i].allocs, s->size_class[i].frees, s->size_class[i].bytes,
			s->size_class[i].freed_bytes, 0};
}

static int fill_all_stats(struct mt_mtk_reader *rd)
{
	static const struct mt_state_stats nothing;
	struct mt_profile *p = rd->profile;
	uint32_t count = MT_MIN(rd->raw.stats_count, p->thread_count), used = 0;
	for (uint32_t i = 1; i < count; i++)
		used += rd->raw.thread[i].state &&
			memcmp(&rd->raw.stats[i], &nothing, sizeof(nothing)) != 0;
	if (!used)
		return 0;
	p->stats = mt_arena_array(p->arena, p->thread_count, sizeof(*p->stats));
	if (!p->stats)
		return -ENOMEM;
	for (uint32_t i = 1; i < count; i++)
		if (rd->raw.thread[i].state)
			fill_stats(&p->stats[i], &rd->raw.stats[i]);
	return 0;
}

/* Slots that are just being filled have a place that no block can have. */
static bool is_place(uint64_t place)
{
	return place >= 4096;
}

static int fill_big(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	uint32_t count = 0;
	for (uint32_t i = 0; i < rd->raw.big_count; i++)
		count += is_place(rd->raw.big[i].place);
	p->big = mt_arena_array(p->arena, count, sizeof(*p->big));
	if (count && !p->big)
		return -ENOMEM;
	for (uint32_t i = 0; i < rd->raw.big_count; i++) {
		const struct mt_state_big *b = &rd->raw.big[i];
		if (!is_place(b->place))
			continue;
		if (b->thread >= p->thread_count)
			rd->damage[MT_MTK_BAD_CELL_THREAD]++;
		p->big[p->big_count++] = (struct mt_profile_big){
			.address = b->place,
			.usable_bytes = b->usable_bytes,
			.thread = b->thread < p->thread_count ? b->thread : 0,
			.born_ns = mt_profile_clock_at(&rd->time.clock, b->unit),
		};
	}
	return 0;
}

/* ---- changes ---- */

static bool has_text(uint32_t what)
{
	return what == MT_CHANGE_MODULES || what == MT_CHANGE_LABEL || what == MT_CHANGE_REFUSED;
}

static int fill_changes(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	uint32_t count = rd->raw.change_count;
	p->change = mt_arena_array(p->arena, count, sizeof(*p->change));
	if (!p->change)
		return -ENOMEM;
	for (uint32_t i = 1; i < count; i++) {
		const struct mt_state_change *c = &rd->raw.change[i];
		if (!c->what)
			continue;
		p->change[p->change_count++] = (struct mt_profile_change){
			.what = c->what,
			.thread = c->thread < p->thread_count ? c->thread : 0,
			.ns = mt_profile_clock_at(&rd->time.clock, c->unit),
			.before = c->before,
			.after = c->after,
			.text = has_text(c->what) ? mt_mtk_string(rd, (uint32_t)c->after) : "",
		};
	}
	return 0;
}

int mt_mtk_fill_modes(struct mt_mtk_reader *rd)
{
	const struct mt_state_header *h = &rd->raw.header;
	struct mt_profile *p = rd->profile;
	p->first_mode = h->first_mode;
	p->interval_bytes = h->interval_bytes;
	p->every = h->every;
	p->peak_resets = h->peak_resets;
	int r = fill_all_stats(rd);
	if (!r)
		r = fill_big(rd);
	if (!r)
		r = fill_changes(rd);
	return r;
}
