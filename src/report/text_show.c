/* SPDX-License-Identifier: MIT */
/* Histograms, threads, heaps and coverage as text. */

#include "report/text_show.h"

#include "analysis/ends.h"
#include "base/cleanup.h"
#include "base/units.h"
#include "model/profile.h"
#include "report/errors.h"
#include "report/grid.h"
#include "report/internal.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

enum { BAR_WIDTH = 32 };
#define MINUTE_NS 60000000000u

void mt_show_size_range(uint32_t bucket, uint64_t *ret_lo, uint64_t *ret_hi)
{
	*ret_lo = bucket ? 1ull << (bucket - 1) : 0;
	*ret_hi = bucket + 1 >= MT_HIST_BUCKETS ? UINT64_MAX : bucket ? *ret_lo * 2 - 1 : 0;
}

void mt_show_life_range(uint32_t bucket, uint64_t unit_ns, uint64_t *ret_lo, uint64_t *ret_hi)
{
	*ret_lo = bucket ? unit_ns << (2 * (bucket - 1)) : 0;
	*ret_hi = bucket + 1 >= MT_LIFE_HIST_BUCKETS ? UINT64_MAX : unit_ns << (2 * bucket);
}

static void add_stats_live(const struct mt_profile *p, struct mt_size_live *live)
{
	int64_t count[MT_HIST_BUCKETS] = {0}, bytes[MT_HIST_BUCKETS] = {0};

	for (uint32_t i = 1; p->stats && i < p->thread_count; i++)
		for (uint32_t k = 0; k < MT_HIST_BUCKETS; k++) {
			const struct mt_profile_counts *c = &p->stats[i].size[k];

			count[k] += (int64_t)(c->allocs - c->frees);
			bytes[k] += (int64_t)(c->bytes - c->freed_bytes);
		}
	for (uint32_t k = 0; k < MT_HIST_BUCKETS; k++) {
		live->count[k] += count[k] > 0 ? (uint64_t)count[k] : 0;
		live->bytes[k] += bytes[k] > 0 ? (uint64_t)bytes[k] : 0;
	}
}

static void add_groups_live(const struct mt_profile *p, struct mt_size_live *live)
{
	for (uint64_t k = 0; k < p->groups; k++) {
		const struct mt_profile_group *g = &p->group[k];
		uint32_t bucket = g->size ? 64 - (uint32_t)__builtin_clzll(g->size) : 0;

		bucket = MT_MIN(bucket, (uint32_t)MT_HIST_BUCKETS - 1);
		live->count[bucket] += g->count;
		live->bytes[bucket] += g->size * g->count;
	}
}

void mt_show_size_live(const struct mt_report *r, struct mt_size_live *ret_live)
{
	*ret_live = (struct mt_size_live){0};
	for (uint32_t i = 0; i < r->profile_count; i++) {
		const struct mt_profile *p = r->profiles[i];

		add_stats_live(p, ret_live);
		for (uint64_t k = 0; k < p->blocks; k++) {
			uint64_t size = p->block[k].size;
			uint32_t bucket = size ? 64 - (uint32_t)__builtin_clzll(size) : 0;

			bucket = MT_MIN(bucket, (uint32_t)MT_HIST_BUCKETS - 1);
			if (p->block[k].heap || p->site[p->cell[p->block[k].cell].site].regime)
				continue; /* the statistics have samples */
			ret_live->count[bucket]++;
			ret_live->bytes[bucket] += size;
		}
		add_groups_live(p, ret_live);
	}
}

static void add_heads(struct mt_grid *g, const char *const *heads)
{
	for (; *heads; heads++)
		mt_grid_add(g, *heads);
}

static void add_bar(struct mt_grid *g, uint64_t value, uint64_t widest)
{
	char bar[BAR_WIDTH + 1];
	/* in long double: counts may be close to 2^64 */
	size_t len = widest ? (size_t)((long double)value / widest * BAR_WIDTH + 0.5L) : 0;

	if (value && !len)
		len = 1;
	for (size_t i = 0; i < len; i++)
		bar[i] = '#';
	bar[len] = 0;
	mt_grid_add(g, bar);
}

static int show_sizes(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out)
{
	static const char *const heads[] = {
		"from", "to", "allocations", "share", "live blocks", "live bytes", "", NULL};
	mt_auto(mt_grid) struct mt_grid g = {0};
	char text[MT_UNITS_TEXT_MAX];
	struct mt_size_live live;
	uint64_t widest = 0, all = 0, lo, hi;

	mt_show_size_live(r, &live);
	for (uint32_t i = 0; i < MT_HIST_BUCKETS; i++) {
		widest = MT_MAX(widest, t->size_hist[i]);
		all += t->size_hist[i];
	}
	mt_buf_printf(out, "%ssizes of %s allocations%s\n", mt_text_strong(r),
		      mt_units_count(all, text), mt_text_end(r));
	mt_grid_init(&g, "rrrrrrl");
	add_heads(&g, heads);
	for (uint32_t i = 0; i < MT_HIST_BUCKETS; i++) {
		if (!t->size_hist[i] && !live.count[i])
			continue;
		mt_show_size_range(i, &lo, &hi);
		mt_grid_addf(&g, "%s B", mt_units_count(lo, text));
		mt_grid_addf(&g, "%s%s", hi == UINT64_MAX ? "" : mt_units_count(hi, text),
			     hi == UINT64_MAX ? "and more" : " B");
		mt_grid_add(&g, mt_units_count(t->size_hist[i], text));
		mt_grid_add(&g, mt_units_percent(t->size_hist[i], all, text));
		mt_grid_add(&g, mt_units_count(live.count[i], text));
		mt_grid_add(&g, mt_units_size(live.bytes[i], text));
		add_bar(&g, t->size_hist[i], widest);
	}
	if (t->size_hist_missing)
		mt_buf_printf(out, "%s allocations have no recorded size class\n",
			      mt_units_count(t->size_hist_missing, text));
	return mt_grid_write(&g, 2, out);
}

static int show_lifetimes(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out)
{
	static const char *const heads[] = {"from", "to", "frees", "share", "", NULL};
	mt_auto(mt_grid) struct mt_grid g = {0};
	char text[MT_UNITS_TEXT_MAX];
	uint64_t widest = 0, all = 0, lo, hi;

	for (uint32_t i = 0; i < MT_LIFE_HIST_BUCKETS; i++) {
		widest = MT_MAX(widest, t->life_hist[i]);
		all += t->life_hist[i];
	}
	mt_buf_printf(out, "%sages of %s blocks when they were freed%s; %s are still live\n",
		      mt_text_strong(r), mt_units_count(all, text), mt_text_end(r),
		      mt_units_count(t->live_count, (char[MT_UNITS_TEXT_MAX]){0}));
	mt_grid_init(&g, "rrrrl");
	add_heads(&g, heads);
	for (uint32_t i = 0; i < MT_LIFE_HIST_BUCKETS; i++) {
		mt_show_life_range(i, t->life_unit_ns, &lo, &hi);
		mt_grid_add(&g, t->life_unit_ns ? mt_units_time(lo, text) : "?");
		mt_grid_add(&g, !t->life_unit_ns   ? "?"
				: hi == UINT64_MAX ? "and more"
						   : mt_units_time(hi, text));
		mt_grid_add(&g, mt_units_count(t->life_hist[i], text));
		mt_grid_add(&g, mt_units_percent(t->life_hist[i], all, text));
		add_bar(&g, t->life_hist[i], widest);
	}
	return mt_grid_write(&g, 2, out);
}

uint64_t mt_show_per_hour(const struct mt_profile *p, const struct mt_profile_thread *th,
			  uint64_t count)
{
	const long double hour_ns = 3600e9L;
	uint64_t ns = p->duration_ns > th->start_ns ? p->duration_ns - th->start_ns : 0;
	long double rate = ns ? (long double)count * (hour_ns / ns) + 0.5L : 0;

	return rate < 0x1p63L ? (uint64_t)rate : UINT64_MAX;
}

/* Of less than a minute an hour cannot be told. */
static void add_rate(struct mt_grid *g, const struct mt_profile *p,
		     const struct mt_profile_thread *th, uint64_t count)
{
	char text[MT_UNITS_TEXT_MAX];
	bool is_long = p->duration_ns > th->start_ns && p->duration_ns - th->start_ns >= MINUTE_NS;

	mt_grid_add(g, is_long ? mt_units_count(mt_show_per_hour(p, th, count), text) : "-");
}

static void add_thread(struct mt_grid *g, const struct mt_profile *p,
		       const struct mt_profile_thread *th)
{
	const struct mt_profile_counts *c = &th->heap[0];
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_addf(g, "%" PRId32, p->pid);
	mt_grid_addf(g, "%" PRIu32, th->tid);
	mt_grid_add(g, mt_units_count(c->allocs, text));
	add_rate(g, p, th, c->allocs);
	mt_grid_add(g, mt_units_size(c->bytes, text));
	mt_grid_add(g, mt_units_count(c->frees, text));
	mt_grid_add(g, mt_units_count(th->reallocs, text));
	add_rate(g, p, th, th->reallocs);
	mt_grid_add(g, mt_units_count(th->realloc_grown, text));
	add_rate(g, p, th, th->realloc_grown);
	mt_grid_add(g, mt_units_count(th->temporaries, text));
	mt_grid_add(g, mt_units_size_signed(th->live_bytes, text));
	mt_grid_add(g, mt_units_size_signed(th->peak_bytes, text));
	mt_grid_addf(g, "%s%s%s", th->name[0] ? th->name : "?", th->ended ? ", ended" : "",
		     th->reuse_count ? ", and earlier threads in its row" : "");
}

static int show_threads(const struct mt_report *r, struct mt_buf *out)
{
	static const char *const heads[] = {"pid",      "thread",  "allocations", "an hour",
					    "bytes",    "frees",   "reallocs",    "an hour",
					    "growing",  "an hour", "temporary",   "balance",
					    "its peak", "name",    NULL};
	mt_auto(mt_grid) struct mt_grid g = {0};
	uint32_t count = 0;

	mt_grid_init(&g, "rrrrrrrrrrrrrl");
	add_heads(&g, heads);
	for (uint32_t i = 0; i < r->profile_count; i++)
		for (uint32_t k = 1; k < r->profiles[i]->thread_count; k++) {
			const struct mt_profile_thread *th = &r->profiles[i]->thread[k];

			if (!th->tid)
				continue;
			count++;
			if (!r->top || count <= r->top)
				add_thread(&g, r->profiles[i], th);
		}
	mt_buf_printf(out,
		      "%s%" PRIu32 " thread%s%s; balance: allocated minus freed by the thread, "
		      "negative where it frees what others allocated\n",
		      mt_text_strong(r), count, count == 1 ? "" : "s", mt_text_end(r));
	if (mt_grid_write(&g, 2, out))
		return -ENOMEM;
	if (r->top && count > r->top)
		mt_buf_printf(out, "\n%" PRIu32 " more threads (--top=0 shows all)\n",
			      count - r->top);
	return 0;
}

static int show_heaps(const struct mt_report *r, struct mt_buf *out)
{
	static const char *const heads[] = {"heap",      "live",        "live bytes", "blocks",
					    "allocated", "allocations", "frees",      NULL};
	uint32_t count = 0;
	mt_auto(free) struct mt_heap_sum *sums = mt_report_heaps(r, &count);
	mt_auto(mt_grid) struct mt_grid g = {0};
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_init(&g, "lrrrrrr");
	if (!sums)
		return -ENOMEM;
	mt_buf_printf(out,
		      "%s%" PRIu32
		      " heaps%s; they overlap: an allocator takes its memory by mmap and "
		      "brk\n",
		      mt_text_strong(r), count, mt_text_end(r));
	add_heads(&g, heads);
	for (uint32_t i = 0; i < count; i++) {
		mt_grid_add(&g, sums[i].name);
		mt_grid_add(&g, mt_units_size(sums[i].live_bytes, text));
		mt_grid_add(&g, mt_units_count(sums[i].live_bytes, text));
		mt_grid_add(&g, mt_units_count(sums[i].live_count, text));
		mt_grid_add(&g, mt_units_size(sums[i].bytes, text));
		mt_grid_add(&g, mt_units_count(sums[i].allocs, text));
		mt_grid_add(&g, mt_units_count(sums[i].frees, text));
	}
	if (mt_grid_write(&g, 2, out))
		return -ENOMEM;
	mt_buf_adds(out,
		    "mmap and brk count calls of the program and its libraries; mappings that the "
		    "C library makes itself\n(thread stacks, arenas and large blocks of malloc, "
		    "buffers) are not seen\n");
	return 0;
}

static void add_fact(struct mt_grid *g, const char *name, uint64_t count)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_add(g, mt_units_count(count, text));
	mt_grid_add(g, name);
}

static void add_module_facts(const struct mt_report *r, struct mt_grid *g)
{
	uint64_t modules = 0, unloaded = 0, anonymous = 0;

	for (uint32_t i = 0; i < r->profile_count; i++)
		for (uint32_t k = 1; k < r->profiles[i]->module_count; k++) {
			const struct mt_profile_module *m = &r->profiles[i]->module[k];

			modules++;
			unloaded += m->unloaded_ns != 0;
			anonymous += !m->build_id_bytes;
		}
	add_fact(g, "modules seen", modules);
	add_fact(g, "of them unloaded before the end", unloaded);
	add_fact(g, "of them without a build-id (hashes use their path)", anonymous);
}

static void emit_note(void *context, const char *sentence)
{
	mt_text_line(context, "  note: ", sentence, "\n");
}

static void add_verified(struct mt_grid *g, const struct mt_totals *t)
{
	static const char *const unsure[] = {
		"call stacks to verify, but nobody answered (in time)",
		"call stacks to verify, but the process could not be read from outside",
		"call stacks to verify, but libdw does not get as far as the recorded one",
	};

	if (t->verified) {
		add_fact(g, "call stacks compared with libdw's, from outside (--verify)",
			 t->verified);
		add_fact(g, "of them wrong", t->verify_wrong);
	}
	for (uint32_t i = 0; i < MT_ARRAY_LEN(unsure); i++)
		if (t->verify_unsure[i])
			add_fact(g, unsure[i], t->verify_unsure[i]);
}

/* How the stacks of all allocations end, and in which functions they stop too early. */
static int show_ends(const struct mt_report *r, struct mt_buf *out)
{
	mt_auto(mt_grid) struct mt_grid sums = {0}, places = {0};
	mt_auto(mt_ends) struct mt_ends ends = {0};
	char text[MT_UNITS_TEXT_MAX];

	if (mt_ends_find(r->profiles, r->profile_count, r->names, &ends))
		return -ENOMEM;
	mt_buf_printf(out, "%scall stacks of %s allocations%s\n", mt_text_strong(r),
		      mt_units_count(ends.all, text), mt_text_end(r));
	mt_grid_init(&sums, "rrl");
	for (uint32_t i = 0; i < MT_END_COUNT; i++) {
		if (!ends.allocs[i])
			continue;
		mt_grid_add(&sums, mt_units_count(ends.allocs[i], text));
		mt_grid_add(&sums, mt_units_percent(ends.allocs[i], ends.all, text));
		mt_grid_add(&sums, mt_words_stack_end(i));
	}
	if (ends.by_fp) {
		mt_grid_add(&sums, mt_units_count(ends.by_fp, text));
		mt_grid_add(&sums, mt_units_percent(ends.by_fp, ends.all, text));
		mt_grid_add(&sums, "of all have frames found by the frame pointer alone");
	}
	mt_grid_init(&places, "rrlll");
	for (size_t i = 0; i < ends.count && (!r->top || i < r->top); i++) {
		mt_grid_add(&places, mt_units_count(ends.at[i].allocs, text));
		mt_grid_add(&places, mt_units_percent(ends.at[i].allocs, ends.all, text));
		mt_grid_add(&places, mt_words_stack_end(ends.at[i].end));
		mt_grid_add(&places, ends.at[i].module);
		mt_grid_add(&places, ends.at[i].function);
	}
	if (mt_grid_write(&sums, 2, out))
		return -ENOMEM;
	if (ends.count)
		mt_buf_adds(out, "where stacks stop before the entry\n");
	return mt_grid_write(&places, 2, out);
}

static int show_coverage(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out)
{
	mt_auto(mt_grid) struct mt_grid g = {0};

	mt_buf_printf(out, "%s%s%s\n", mt_text_strong(r),
		      t->is_exact ? "every event that was seen is in the tables"
				  : "some events are not in every table, see the warnings above",
		      mt_text_end(r));
	mt_grid_init(&g, "rl");
	add_fact(&g, "call stacks taken", t->captures);
	add_fact(&g, "of them remembered whole (no walk)", t->memo_hits);
	add_fact(&g, "frames walked", t->frames_walked);
	add_fact(&g, "frames found by the frame pointer alone", t->fp_steps);
	add_verified(&g, t);
	add_fact(&g, "allocations without a site (tables full)", t->unplaced_allocs);
	add_fact(&g, "allocations without a live-block record (table full)", t->untracked_allocs);
	add_fact(&g, "frees of addresses that were not recorded", t->unknown_frees);
	for (uint32_t i = 0; i < MT_ARRAY_LEN(t->lost); i++)
		if (t->lost[i])
			add_fact(&g, mt_words_lost(i), t->lost[i]);
	add_module_facts(r, &g);
	if (mt_grid_write(&g, 2, out))
		return -ENOMEM;
	mt_report_notes(r, emit_note, out);
	return show_ends(r, out);
}

int mt_text_show(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out,
		 struct mt_err *err)
{
	switch (r->show) {
	case MT_SHOW_SIZES:
		return show_sizes(r, t, out);
	case MT_SHOW_LIFETIMES:
		return show_lifetimes(r, t, out);
	case MT_SHOW_THREADS:
		return show_threads(r, out);
	case MT_SHOW_HEAPS:
		return show_heaps(r, out);
	case MT_SHOW_COVERAGE:
		return show_coverage(r, t, out);
	case MT_SHOW_ERRORS:
		return mt_errors_text(r, out);
	default:
		return mt_err_set(err, -EINVAL, "nothing to show");
	}
}
