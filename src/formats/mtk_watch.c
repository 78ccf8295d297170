/* SPDX-License-Identifier: MIT */
/*
 * Sums of a state file without its blocks and stacks. What goes into a struct mt_watch is added up
 * here from tables that may hold anything: indexes are checked, sums may wrap.
 */
#include "formats/mtk_watch.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "formats/mtk_read.h"
#include "formats/mtk_source.h"
#include "formats/mtk_time.h"

_Static_assert(sizeof(((struct mt_watch *)0)->lost) == sizeof(((struct mt_state_header *)0)->lost),
	       "one number for each reason");
_Static_assert((int)MT_WATCH_ERRORS == (int)MT_ERROR_HEADER + 1, "one number for each kind");
_Static_assert((int)MT_WATCH_SIZES == (int)MT_SIZE_BUCKETS, "same buckets");

struct watching {
	struct mt_mtk_source source;
	struct mt_watch watch; /* owned */
	unsigned what;
	uint32_t elem_bytes; /* of the region that is walked */
	size_t thread_cap;
	struct mt_state_hist *hist; /* owned copy, hist_count elements */
	uint64_t hist_count;
	struct mt_watch_counts *stats; /* owned; by number of the thread, stats_count elements */
	uint64_t stats_count;
	/*
	 * Events of samples, which the threads' totals have beside the statistics; by number of the
	 * thread, sample_count elements, and whether a site of the malloc heap is sampled. Owned;
	 * NULL: nothing was sampled.
	 */
	struct mt_watch_counts *samples;
	bool *is_sampled;
	uint64_t sample_count, is_sampled_count;
	uint64_t recorded;      /* allocations that were recorded in full */
	uint32_t *site_of_cell; /* owned; cell_count elements; NULL: nothing was sampled */
	uint64_t cell_count;
};

static void watching_done(struct watching *w)
{
	mt_watch_done(&w->watch);
	free(w->hist);
	free(w->stats);
	free(w->samples);
	free(w->is_sampled);
	free(w->site_of_cell);
}
MT_AUTO_DEFINE_INPLACE(watching, struct watching, watching_done)

static void add_totals(struct mt_watch_counts *to, const struct mt_state_totals *from)
{
	to->allocs += from->allocs;
	to->frees += from->frees;
	to->bytes += from->bytes;
	to->freed_bytes += from->freed_bytes;
}

static void take_counts(struct mt_watch_counts *from, const struct mt_watch_counts *what)
{
	from->allocs -= what->allocs;
	from->frees -= what->frees;
	from->bytes -= what->bytes;
	from->freed_bytes -= what->freed_bytes;
}

static uint64_t positive(int64_t v)
{
	return v > 0 ? (uint64_t)v : 0;
}

static void add_counts(struct mt_watch_counts *to, const struct mt_watch_counts *from)
{
	to->allocs += from->allocs;
	to->frees += from->frees;
	to->bytes += from->bytes;
	to->freed_bytes += from->freed_bytes;
}

/* Elements of a region that are at least need_bytes wide; 0 when it is not there. */
static uint64_t elements(const struct watching *w, uint32_t kind, size_t need_bytes)
{
	const struct mt_mtk_region *r = mt_mtk_source_region(&w->source, kind);

	return r->elem_bytes >= need_bytes ? r->count : 0;
}

static int walk(struct watching *w, uint32_t kind, size_t need_bytes, mt_mtk_visit *visit)
{
	const struct mt_mtk_region *r = mt_mtk_source_region(&w->source, kind);
	int code;

	if (!r->kind)
		return 0;
	w->watch.is_partial |= r->fault != MT_MTK_FAULT_NONE || r->elem_bytes < need_bytes;
	if (r->elem_bytes < need_bytes)
		return 0;
	w->elem_bytes = r->elem_bytes;
	code = mt_mtk_source_walk(&w->source, r, visit, w);
	if (code == -ENOMEM)
		return code;
	w->watch.is_partial |= code != 0;
	return 0;
}

/* ---- statistics ---- */

static int visit_stats(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct watching *w = user;

	for (uint64_t i = 0; i < count && first + i < w->stats_count; i++) {
		struct mt_state_stats s;

		memcpy(&s, (const uint8_t *)elems + i * w->elem_bytes, sizeof(s));
		for (uint32_t b = 0; b < MT_SIZE_BUCKETS; b++) {
			const struct mt_state_size_class *c = &s.size_class[b];
			struct mt_watch_counts counts = {c->allocs, c->frees, c->bytes,
							 c->freed_bytes};

			add_counts(&w->stats[first + i], &counts);
			add_counts(&w->watch.sizes[b], &counts);
		}
	}
	return 0;
}

static int load_stats(struct watching *w)
{
	w->stats_count = elements(w, MT_REGION_STATS, sizeof(struct mt_state_stats));
	w->stats = mt_alloc_zero(w->stats_count + 1u, sizeof(*w->stats));
	return w->stats ? walk(w, MT_REGION_STATS, sizeof(struct mt_state_stats), visit_stats)
			: -ENOMEM;
}

/* ---- samples ---- */

static int visit_sample_sites(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct watching *w = user;

	for (uint64_t i = 0; i < count && first + i < w->is_sampled_count; i++) {
		struct mt_state_site s;

		memcpy(&s, (const uint8_t *)elems + i * w->elem_bytes, sizeof(s));
		w->is_sampled[first + i] = s.regime && s.heap == MT_HEAP_MALLOC;
	}
	return 0;
}

static int visit_sample_cells(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct watching *w = user;

	for (uint64_t i = 0; i < count; i++) {
		struct mt_watch_counts counts;
		struct mt_state_cell c;

		memcpy(&c, (const uint8_t *)elems + i * w->elem_bytes, sizeof(c));
		if (c.site >= w->is_sampled_count || !w->is_sampled[c.site] ||
		    c.thread >= w->sample_count)
			continue;
		counts = (struct mt_watch_counts){c.allocs, c.frees, c.bytes, c.freed_bytes};
		add_counts(&w->samples[c.thread], &counts);
	}
	return 0;
}

/* Before the threads: their totals have at least what the cells had. */
static int load_samples(struct watching *w)
{
	int code;

	if (elements(w, MT_REGION_REGIMES, sizeof(struct mt_state_regime)) < 2)
		return 0;
	w->sample_count = elements(w, MT_REGION_THREADS, sizeof(struct mt_state_thread));
	w->is_sampled_count = elements(w, MT_REGION_SITES, sizeof(struct mt_state_site));
	w->samples = mt_alloc_zero(w->sample_count + 1u, sizeof(*w->samples));
	w->is_sampled = mt_alloc_zero(w->is_sampled_count + 1u, sizeof(*w->is_sampled));
	if (!w->samples || !w->is_sampled)
		return -ENOMEM;
	code = walk(w, MT_REGION_SITES, sizeof(struct mt_state_site), visit_sample_sites);
	return code ? code
		    : walk(w, MT_REGION_CELLS, sizeof(struct mt_state_cell), visit_sample_cells);
}

/* ---- threads ---- */

/* What a thread recorded in full: its totals, less the samples among them. */
static struct mt_watch_counts recorded_by(struct watching *w, const struct mt_state_thread *t,
					  uint64_t number)
{
	struct mt_watch_counts counts = {0};

	add_totals(&counts, &t->totals[MT_CLASS_MALLOC]);
	if (number < w->sample_count)
		take_counts(&counts, &w->samples[number]);
	w->recorded += counts.allocs;
	return counts;
}

static bool is_gone(const struct watching *w, const struct mt_state_thread *t)
{
	char path[64];

	if (t->state == 2 || !w->watch.is_running)
		return true;
	snprintf(path, sizeof(path), "/proc/%d/task/%u", w->watch.pid, t->tid);
	return access(path, F_OK) != 0;
}

static int keep_thread(struct watching *w, const struct mt_state_thread *t,
		       const struct mt_watch_counts *counts)
{
	struct mt_watch_thread *grown, *to;

	grown = mt_alloc_grow(w->watch.thread, &w->thread_cap, w->watch.thread_count + 1u,
			      sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	w->watch.thread = grown;
	to = &grown[w->watch.thread_count++];
	*to = (struct mt_watch_thread){
		.tid = t->tid,
		.is_ended = is_gone(w, t),
		.reallocs = t->reallocs,
		.realloc_grown = t->realloc_grown,
		.counts = *counts,
	};
	memcpy(to->name, t->name, sizeof(t->name));
	return 0;
}

static int visit_threads(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct watching *w = user;
	int code = 0;

	for (uint64_t i = 0; i < count && !code; i++) {
		struct mt_watch_counts counts = {0}, full;
		struct mt_state_thread t;

		memcpy(&t, (const uint8_t *)elems + i * w->elem_bytes, sizeof(t));
		if (!t.state || !(first + i))
			continue;
		if (first + i < w->stats_count)
			counts = w->stats[first + i];
		full = recorded_by(w, &t, first + i);
		add_counts(&counts, &full);
		add_counts(&w->watch.counts, &counts);
		w->watch.events += counts.allocs + counts.frees;
		for (size_t k = MT_CLASS_MALLOC + 1; k < MT_ARRAY_LEN(t.totals); k++)
			w->watch.events += t.totals[k].allocs + t.totals[k].frees;
		w->watch.reallocs += t.reallocs;
		w->watch.realloc_grown += t.realloc_grown;
		w->watch.failed_allocs += t.failed_allocs;
		if (w->what & MT_MTK_WATCH_THREADS)
			code = keep_thread(w, &t, &counts);
	}
	return code;
}

/* ---- sites ---- */

static void add_sizes(struct watching *w, const struct mt_state_cell *c)
{
	if (c->hist) {
		for (uint32_t b = 0; c->hist < w->hist_count && b < MT_SIZE_BUCKETS; b++)
			w->watch.sizes[b].allocs += w->hist[c->hist].count[b];
	} else if (c->size_known == MT_SIZE_ONE && c->size_bucket < MT_SIZE_BUCKETS) {
		w->watch.sizes[c->size_bucket].allocs += c->allocs;
	}
}

/* `live` has what was ever allocated until all cells are there. */
static void add_samples(struct mt_series_sampled *to, const struct mt_state_cell *c)
{
	to->live.samples += c->allocs;
	to->freed.samples += c->frees;
	to->freed_bytes += c->freed_bytes;
}

static void add_cell(struct watching *w, const struct mt_state_cell *c, uint64_t number)
{
	struct mt_watch_site *site = &w->watch.site[c->site];
	struct mt_watch_counts counts = {c->allocs, c->frees, c->bytes, c->freed_bytes};

	if (site->is_estimate && number < w->cell_count) {
		if (w->watch.sampled)
			add_samples(&w->watch.sampled[c->site], c);
		w->site_of_cell[number] = c->site;
		counts.allocs = counts.frees = 0; /* samples; their weights follow */
	}
	add_counts(&site->counts, &counts);
	if (w->what & MT_MTK_WATCH_SIZES && site->heap == MT_HEAP_MALLOC && !site->is_estimate)
		add_sizes(w, c);
}

static int visit_cells(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct watching *w = user;

	for (uint64_t i = 0; i < count; i++) {
		struct mt_state_cell c;

		memcpy(&c, (const uint8_t *)elems + i * w->elem_bytes, sizeof(c));
		if (c.site && c.site < w->watch.site_count)
			add_cell(w, &c, first + i);
	}
	return 0;
}

/* A number of 112 bits before the point and 16 behind it, rounded. */
static uint64_t whole_of(const uint64_t q16[2])
{
	return (q16[1] << 48 | q16[0] >> 16) + (q16[0] >> 15 & 1);
}

/* Of two words, low first. */
static double wide(const uint64_t words[2])
{
	return (double)words[1] * 0x1p64 + (double)words[0];
}

static void add_variances(struct mt_series_sampled *to, const struct mt_state_sampled *s)
{
	to->live.seen_bytes += s->sample_bytes;
	to->live.bytes_variance += wide(s->bytes_variance);
	to->live.count_variance += wide(s->count_variance);
	to->freed.seen_bytes += s->freed_sample_bytes;
	to->freed.bytes_variance += wide(s->freed_bytes_variance);
	to->freed.count_variance += wide(s->freed_count_variance);
}

static void take_freed(struct mt_series_part *live, const struct mt_series_part *freed)
{
	live->samples -= MT_MIN(live->samples, freed->samples);
	live->seen_bytes -= MT_MIN(live->seen_bytes, freed->seen_bytes);
	live->bytes_variance = MT_MAX(live->bytes_variance - freed->bytes_variance, 0);
	live->count_variance = MT_MAX(live->count_variance - freed->count_variance, 0);
}

static int visit_sampled(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct watching *w = user;

	for (uint64_t i = 0; i < count && first + i < w->cell_count; i++) {
		uint32_t site = w->site_of_cell[first + i];
		struct mt_state_sampled s;

		memcpy(&s, (const uint8_t *)elems + i * w->elem_bytes, sizeof(s));
		w->watch.site[site].counts.allocs += whole_of(s.count_q16);
		w->watch.site[site].counts.frees += whole_of(s.freed_count_q16);
		if (w->watch.sampled)
			add_variances(&w->watch.sampled[site], &s);
	}
	return 0;
}

static int visit_sites(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct watching *w = user;

	for (uint64_t i = 0; i < count && first + i < w->watch.site_count; i++) {
		struct mt_watch_site *to = &w->watch.site[first + i];
		struct mt_state_site s;

		memcpy(&s, (const uint8_t *)elems + i * w->elem_bytes, sizeof(s));
		*to = (struct mt_watch_site){.node = s.node,
					     .heap = s.heap,
					     .label = s.label,
					     .call = s.call,
					     .is_estimate = s.regime != 0};
	}
	return 0;
}

static int visit_hists(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct watching *w = user;

	for (uint64_t i = 0; i < count && first + i < w->hist_count; i++)
		memcpy(&w->hist[first + i], (const uint8_t *)elems + i * w->elem_bytes,
		       sizeof(*w->hist));
	return 0;
}

static int load_hists(struct watching *w)
{
	w->hist_count = elements(w, MT_REGION_HISTS, sizeof(*w->hist));
	w->hist = mt_alloc_zero(w->hist_count + 1u, sizeof(*w->hist));
	return w->hist ? walk(w, MT_REGION_HISTS, sizeof(*w->hist), visit_hists) : -ENOMEM;
}

/* The cells, and for those that hold samples the estimated counts. */
static int load_cells(struct watching *w)
{
	uint64_t sampled = elements(w, MT_REGION_SAMPLED, sizeof(struct mt_state_sampled));
	int code;

	if (sampled) {
		w->cell_count = elements(w, MT_REGION_CELLS, sizeof(struct mt_state_cell));
		w->site_of_cell = mt_alloc_zero(w->cell_count + 1u, sizeof(*w->site_of_cell));
		if (!w->site_of_cell)
			return -ENOMEM;
	}
	code = walk(w, MT_REGION_CELLS, sizeof(struct mt_state_cell), visit_cells);
	if (code || !sampled)
		return code;
	code = walk(w, MT_REGION_SAMPLED, sizeof(struct mt_state_sampled), visit_sampled);
	w->watch.site[0] = (struct mt_watch_site){0}; /* of cells that belong to no such site */
	return code;
}

/* Room for what sites have beside their counts, where they may have it. */
static int begin_samples(struct watching *w)
{
	bool is_sampled = elements(w, MT_REGION_REGIMES, sizeof(struct mt_state_regime)) > 1;

	w->watch.knows_samples =
		!is_sampled || w->source.header.version_minor >= MT_STATE_FREED_VARIANCE;
	if (!is_sampled || !w->watch.knows_samples)
		return 0;
	w->watch.sampled = mt_alloc_zero(w->watch.site_count + 1u, sizeof(*w->watch.sampled));
	return w->watch.sampled ? 0 : -ENOMEM;
}

static void end_samples(struct watching *w)
{
	bool has_sampled = elements(w, MT_REGION_SAMPLED, sizeof(struct mt_state_sampled)) > 0;

	for (uint32_t i = 0; w->watch.sampled && i < w->watch.site_count; i++) {
		take_freed(&w->watch.sampled[i].live, &w->watch.sampled[i].freed);
		w->watch.knows_samples &= has_sampled || !w->watch.site[i].is_estimate;
	}
	if (w->watch.sampled)
		w->watch.sampled[0] = (struct mt_series_sampled){0};
	w->watch.knows_samples &= !w->watch.is_partial;
}

/* Sites, then their counters: a cell of a site that came later is left to the next reading. */
static int load_sites(struct watching *w)
{
	uint64_t count = elements(w, MT_REGION_SITES, sizeof(struct mt_state_site));
	int code = 0;

	w->watch.site_count = (uint32_t)MT_MIN(count, (uint64_t)UINT32_MAX - 1);
	w->watch.site = mt_alloc_zero(w->watch.site_count + 1u, sizeof(*w->watch.site));
	if (!w->watch.site)
		return -ENOMEM;
	if (w->what & MT_MTK_WATCH_SIZES)
		code = load_hists(w);
	if (!code && w->what & MT_MTK_WATCH_SAMPLES)
		code = begin_samples(w);
	if (!code)
		code = walk(w, MT_REGION_SITES, sizeof(struct mt_state_site), visit_sites);
	if (!code)
		code = load_cells(w);
	end_samples(w);
	return code;
}

/* ---- memory errors ---- */

static int visit_errors(void *user, const void *elems, uint64_t first, uint64_t count)
{
	struct watching *w = user;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t kind;

		memcpy(&kind, (const uint8_t *)elems + i * w->elem_bytes, sizeof(kind));
		if (first + i && kind && kind < MT_WATCH_ERRORS)
			w->watch.errors[kind]++;
	}
	return 0;
}

static int load_errors(struct watching *w)
{
	w->watch.errors[0] = mt_mtk_source_region(&w->source, MT_REGION_ERRORS)->refused;
	return walk(w, MT_REGION_ERRORS, sizeof(struct mt_state_error), visit_errors);
}

/* ---- the whole ---- */

static void take_header(struct watching *w)
{
	const struct mt_state_header *h = &w->source.header;
	struct mt_watch *to = &w->watch;

	to->pid = h->pid;
	to->proc_start = h->proc_start;
	to->wall_start_ns = h->wall_start_ns;
	to->read_ns = mt_mtk_time_mono_ns();
	to->mode = h->mode;
	to->is_recording = h->control & 1;
	to->is_running = mt_mtk_process_alive(h);
	to->interval_bytes = h->interval_bytes;
	to->every = h->every;
	to->end_kind = h->end_kind;
	to->end_code = h->end_code;
	to->tracker_bytes = h->committed_bytes;
	to->tracker_max_bytes = h->max_bytes;
	to->threads_seen = h->threads_seen;
	memcpy(to->lost, h->lost, sizeof(to->lost));
}

/*
 * The peak is published in steps: what is live now was reached, too. Statistics have a peak of
 * their own; where both were counted neither is that of the whole, and the higher one a bound from
 * below.
 */
static void take_live(struct watching *w)
{
	const struct mt_state_header *h = &w->source.header;
	struct mt_watch *to = &w->watch;

	to->live_bytes = mt_watch_live_bytes(&to->counts);
	to->live_blocks = mt_watch_live_blocks(&to->counts);
	to->peak_bytes = positive(h->stats_peak_bytes);
	if (w->recorded || !h->stats_peak_bytes) /* else that one is of estimates */
		to->peak_bytes = MT_MAX(to->peak_bytes, positive(h->peak_bytes));
	to->peak_bytes = MT_MAX(to->peak_bytes, positive(to->live_bytes));
}

int mt_mtk_watch_fd(int fd, const char *name, unsigned what, struct mt_watch *ret_watch,
		    struct mt_err *err)
{
	mt_auto(watching) struct watching w = {.what = what};
	int code = mt_mtk_source_fd(&w.source, fd, name, err);

	if (code)
		return code;
	take_header(&w);
	code = load_stats(&w);
	if (!code)
		code = load_samples(&w);
	if (!code)
		code = walk(&w, MT_REGION_THREADS, sizeof(struct mt_state_thread), visit_threads);
	if (!code)
		code = load_errors(&w);
	if (!code && what & (MT_MTK_WATCH_SITES | MT_MTK_WATCH_SIZES))
		code = load_sites(&w);
	if (code)
		return mt_err_no_memory(err);
	take_live(&w);
	*ret_watch = w.watch;
	w.watch = (struct mt_watch){0};
	return 0;
}

int mt_mtk_watch(const char *path, unsigned what, struct mt_watch *ret_watch, struct mt_err *err)
{
	mt_auto(close) int fd = mt_mtk_open(path, err);

	return fd < 0 ? fd : mt_mtk_watch_fd(fd, path, what, ret_watch, err);
}
