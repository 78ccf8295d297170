/* SPDX-License-Identifier: MIT */
/* The report as JSON; docs/report-json.md is the schema and must change with this file. */

#include "report/json_report.h"

#include "analysis/ends.h"
#include "base/cleanup.h"
#include "model/profile.h"
#include "report/basis.h"
#include "report/errors.h"
#include "report/looks.h"
#include "report/text_show.h"

#include <errno.h>

void mt_json_frame(void *context, const struct mt_stack_line *line)
{
	struct mt_json *j = context;

	mt_json_open(j, NULL, '{');
	if (line->function)
		mt_json_string(j, "function", line->function);
	if (line->file) {
		mt_json_string(j, "file", line->file);
		mt_json_u64(j, "line", line->line);
	}
	if (*line->module)
		mt_json_string(j, "module", line->module);
	if (*line->build_id)
		mt_json_string(j, "build_id", line->build_id);
	mt_json_u64(j, "offset", line->offset);
	if (line->is_inlined)
		mt_json_bool(j, "inlined", true);
	if (line->is_by_frame_pointer)
		mt_json_bool(j, "by_frame_pointer", true);
	mt_json_close(j, '}');
}

static void add_site_words(struct mt_json *j, const struct mt_profile *p, uint32_t site)
{
	const struct mt_profile_site *s = &p->site[site];

	mt_json_string(j, "call", mt_words_call(s->call));
	mt_json_string(j, "heap", s->heap < p->heap_count ? p->heap[s->heap].name : "malloc");
}

void mt_json_row_identity(struct mt_json *j, const struct mt_report *r, enum mt_by by,
			  const struct mt_row *row)
{
	if (row->label)
		mt_json_string(j, row->is_unplaced ? "site" : mt_by_name(by), row->label);
	else
		mt_json_hash(j, "callstack_hash", row->hash);
	if (!row->site || (by != MT_BY_SITE && by != MT_BY_THREAD))
		return;
	add_site_words(j, r->profiles[row->profile], row->site);
	if (*mt_row_tag(r, row))
		mt_json_string(j, "label", mt_row_tag(r, row));
	if (!r->stack)
		return;
	mt_json_open(j, "frames", '[');
	mt_stack_each(r, row, mt_json_frame, j);
	mt_json_close(j, ']');
	mt_json_string(j, "stack_end", mt_words_stack_end(mt_stack_end_of(r, row)));
}

static void add_row(struct mt_json *j, const struct mt_report *r, const struct mt_table *t,
		    uint32_t at)
{
	const struct mt_row *row = &t->row[at];

	mt_json_open(j, NULL, '{');
	mt_json_u64(j, "rank", at + 1u);
	mt_json_u64(j, "count", row->count);
	mt_json_u64(j, "bytes", row->bytes);
	mt_json_estimate(j, row->estimate);
	mt_json_row_identity(j, r, t->query.by, row);
	mt_json_u64(j, "allocs", row->allocs);
	mt_json_u64(j, "alloc_bytes", row->alloc_bytes);
	mt_json_u64(j, "frees", row->frees);
	mt_json_u64(j, "freed_bytes", row->freed_bytes);
	mt_json_u64(j, "temporaries", row->temporaries);
	mt_json_u64(j, "live_count", row->live_count);
	mt_json_u64(j, "live_bytes", row->live_bytes);
	mt_looks_json_row(j, t, row);
	if (t->query.by != MT_BY_SIZE && t->query.by != MT_BY_THREAD) {
		mt_json_u64(j, "peak_bytes", row->peak_bytes);
		mt_json_u64(j, "peak_bound_bytes", row->peak_bound_bytes);
		mt_json_u64(j, "at_peak_count", row->at_peak_count);
		mt_json_u64(j, "at_peak_bytes", row->at_peak_bytes);
	}
	mt_json_u64(j, "oldest_age_ns", row->oldest_age_ns);
	mt_json_u64(j, "newest_age_ns", row->newest_age_ns);
	mt_json_u64(j, "recent_bytes", row->recent_bytes);
	mt_json_bool(j, "growing", row->is_growing);
	mt_json_close(j, '}');
}

/* Rows of a sorted leak table that are not below the threshold. */
static uint32_t count_wide(const struct mt_report *r, const struct mt_table *t,
			   struct mt_small_rows *ret_small)
{
	*ret_small = (struct mt_small_rows){0};
	if (r->show == MT_SHOW_LEAKS && t->query.sort == MT_SORT_BYTES)
		*ret_small = mt_table_below(t, r->leak_threshold_bytes);
	return t->row_count - ret_small->rows;
}

static void add_sum(struct mt_json *j, const char *name, uint64_t rows, uint64_t count,
		    uint64_t bytes)
{
	mt_json_open(j, name, '{');
	mt_json_u64(j, "rows", rows);
	mt_json_u64(j, "count", count);
	mt_json_u64(j, "bytes", bytes);
	mt_json_close(j, '}');
}

/* Member NAME: [...rows], and what the rows leave out. */
static void add_rows(struct mt_json *j, const struct mt_report *r, const struct mt_table *t,
		     const char *name)
{
	struct mt_small_rows small;
	uint32_t wide = count_wide(r, t, &small);
	uint32_t shown = r->top ? MT_MIN(r->top, wide) : wide;

	mt_json_open(j, name, '[');
	for (uint32_t i = 0; i < shown; i++)
		add_row(j, r, t, i);
	mt_json_close(j, ']');
	mt_json_u64(j, "rows_total", t->row_count);
	mt_json_u64(j, "rows_not_shown", wide - shown);
	add_sum(j, "below_threshold", small.rows, small.count, small.bytes);
	add_sum(j, "suppressed", t->suppressed_sites, t->suppressed_count, t->suppressed_bytes);
	mt_json_bool(j, "partial", t->is_partial);
}

static void add_process(struct mt_json *j, const struct mt_profile *p)
{
	mt_json_open(j, NULL, '{');
	mt_json_i64(j, "pid", p->pid);
	mt_json_i64(j, "ppid", p->ppid);
	mt_json_string(j, "exe", p->exe);
	mt_json_string(j, "cmdline", p->cmdline);
	mt_json_string(j, "mode", mt_words_mode(p->mode));
	mt_json_u64(j, "wall_start_ns", p->wall_start_ns);
	mt_json_u64(j, "duration_ns", p->duration_ns);
	mt_json_bool(j, "running", p->process_alive);
	if (p->end_kind == 1)
		mt_json_i64(j, "exit_status", p->end_code);
	if (p->end_kind == 2)
		mt_json_i64(j, "signal", p->end_code);
	mt_json_u64(j, "total_alloc", p->totals.allocs);
	mt_json_u64(j, "total_alloc_bytes", p->totals.bytes);
	mt_json_u64(j, "total_free", p->totals.frees);
	mt_json_u64(j, "total_free_bytes", p->totals.freed_bytes);
	mt_json_u64(j, "peak_bytes", p->peak_bytes);
	mt_json_u64(j, "peak_bound_bytes", p->peak_bound_bytes);
	mt_json_u64(j, "live_count", p->live_count);
	mt_json_u64(j, "live_bytes", p->live_bytes);
	mt_looks_json_process(j, p);
	mt_json_close(j, '}');
}

static void emit_warning(void *context, const char *sentence)
{
	mt_json_string(context, NULL, sentence);
}

static int add_heaps(struct mt_json *j, const struct mt_report *r)
{
	uint32_t count = 0;
	mt_auto(free) struct mt_heap_sum *sums = mt_report_heaps(r, &count);

	if (!sums)
		return -ENOMEM;
	mt_json_open(j, "heaps", '[');
	for (uint32_t i = 0; i < count; i++) {
		mt_json_open(j, NULL, '{');
		mt_json_string(j, "heap", sums[i].name);
		mt_json_u64(j, "live_count", sums[i].live_count);
		mt_json_u64(j, "live_bytes", sums[i].live_bytes);
		mt_json_u64(j, "allocs", sums[i].allocs);
		mt_json_u64(j, "alloc_bytes", sums[i].bytes);
		mt_json_u64(j, "frees", sums[i].frees);
		mt_json_u64(j, "freed_bytes", sums[i].freed_bytes);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	return 0;
}

/* The article's names first, then ours. */
static void add_totals(struct mt_json *j, const struct mt_report *r, const struct mt_totals *t,
		       const struct mt_report_leaks *leaks)
{
	mt_json_u64(j, "total_alloc", t->allocs);
	mt_json_u64(j, "total_alloc_bytes", t->alloc_bytes);
	mt_json_u64(j, "total_free", t->frees);
	mt_json_u64(j, "total_free_bytes", t->freed_bytes);
	mt_json_u64(j, "peak_bytes", t->peak_bytes);
	mt_json_u64(j, "peak_bound_bytes", t->peak_bound_bytes);
	mt_json_u64(j, "live_count", t->live_count);
	mt_json_u64(j, "live_bytes", t->live_bytes);
	if (mt_basis_is_counted_only(r)) { /* not known without call stacks */
		mt_json_null(j, "leak_sites");
		mt_json_null(j, "leak_count");
		mt_json_null(j, "leak_bytes");
		mt_json_null(j, "temporaries");
	} else {
		mt_json_u64(j, "leak_sites", leaks->sites);
		mt_json_u64(j, "leak_count", leaks->count);
		mt_json_u64(j, "leak_bytes", leaks->bytes);
		mt_json_u64(j, "temporaries", t->temporaries);
	}
	mt_looks_json_totals(j, t);
	mt_json_u64(j, "reallocs", t->reallocs);
	mt_json_u64(j, "unknown_frees", t->unknown_frees);
	if (t->mismatched_frees)
		mt_json_u64(j, "mismatched_frees", t->mismatched_frees);
	mt_json_u64(j, "failed_allocs", t->failed_allocs);
	mt_json_u64(j, "duration_ns", t->duration_ns);
}

static void add_sizes(struct mt_json *j, const struct mt_report *r, const struct mt_totals *t)
{
	struct mt_size_live live;
	uint64_t lo, hi;

	mt_show_size_live(r, &live);
	mt_json_open(j, "sizes", '[');
	for (uint32_t i = 0; i < MT_HIST_BUCKETS; i++) {
		if (!t->size_hist[i] && !live.count[i])
			continue;
		mt_show_size_range(i, &lo, &hi);
		mt_json_open(j, NULL, '{');
		mt_json_u64(j, "from", lo);
		if (hi != UINT64_MAX)
			mt_json_u64(j, "to", hi);
		mt_json_u64(j, "allocs", t->size_hist[i]);
		mt_json_u64(j, "live_count", live.count[i]);
		mt_json_u64(j, "live_bytes", live.bytes[i]);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	mt_json_u64(j, "sizes_missing", t->size_hist_missing);
}

static void add_lifetimes(struct mt_json *j, const struct mt_totals *t)
{
	uint64_t lo, hi;

	mt_json_open(j, "lifetimes", '[');
	for (uint32_t i = 0; i < MT_LIFE_HIST_BUCKETS; i++) {
		mt_show_life_range(i, t->life_unit_ns, &lo, &hi);
		mt_json_open(j, NULL, '{');
		mt_json_u64(j, "from_ns", lo);
		if (hi != UINT64_MAX)
			mt_json_u64(j, "to_ns", hi);
		mt_json_u64(j, "frees", t->life_hist[i]);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
}

/* is_counted: nothing else is known of the allocations */
static void add_thread(struct mt_json *j, const struct mt_profile *p,
		       const struct mt_profile_thread *th, bool is_counted)
{
	mt_json_open(j, NULL, '{');
	mt_json_i64(j, "pid", p->pid);
	mt_json_u64(j, "tid", th->tid);
	mt_json_string(j, "name", th->name);
	mt_json_bool(j, "ended", th->ended);
	mt_json_u64(j, "allocs", th->heap[0].allocs);
	mt_json_u64(j, "alloc_bytes", th->heap[0].bytes);
	mt_json_u64(j, "frees", th->heap[0].frees);
	mt_json_u64(j, "freed_bytes", th->heap[0].freed_bytes);
	mt_json_u64(j, "reallocs", th->reallocs);
	if (is_counted)
		mt_json_null(j, "temporaries");
	else
		mt_json_u64(j, "temporaries", th->temporaries);
	mt_json_i64(j, "balance_bytes", th->live_bytes);
	mt_json_i64(j, "peak_bytes", th->peak_bytes);
	mt_json_u64(j, "realloc_grown", th->realloc_grown);
	mt_json_u64(j, "allocs_per_hour", mt_show_per_hour(p, th, th->heap[0].allocs));
	mt_json_u64(j, "reallocs_per_hour", mt_show_per_hour(p, th, th->reallocs));
	mt_json_u64(j, "realloc_grown_per_hour", mt_show_per_hour(p, th, th->realloc_grown));
	mt_json_close(j, '}');
}

static void add_threads(struct mt_json *j, const struct mt_report *r)
{
	bool is_counted = mt_basis_is_counted_only(r);

	mt_json_open(j, "threads", '[');
	for (uint32_t i = 0; i < r->profile_count; i++)
		for (uint32_t k = 1; k < r->profiles[i]->thread_count; k++)
			if (r->profiles[i]->thread[k].tid)
				add_thread(j, r->profiles[i], &r->profiles[i]->thread[k],
					   is_counted);
	mt_json_close(j, ']');
}

/* How the stacks of all allocations end, and in which functions they stop too early. */
static int add_ends(struct mt_json *j, const struct mt_report *r)
{
	mt_auto(mt_ends) struct mt_ends ends = {0};

	if (mt_ends_find(r->profiles, r->profile_count, r->names, &ends))
		return -ENOMEM;
	mt_json_u64(j, "stacks", ends.all);
	mt_json_u64(j, "stacks_by_frame_pointer", ends.by_fp);
	mt_json_open(j, "stack_ends", '[');
	for (uint32_t i = 0; i < MT_END_COUNT; i++) {
		if (!ends.allocs[i])
			continue;
		mt_json_open(j, NULL, '{');
		mt_json_string(j, "end", mt_words_stack_end(i));
		mt_json_u64(j, "count", ends.allocs[i]);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	mt_json_open(j, "stack_stops", '[');
	for (size_t i = 0; i < ends.count && (!r->top || i < r->top); i++) {
		mt_json_open(j, NULL, '{');
		mt_json_string(j, "end", mt_words_stack_end(ends.at[i].end));
		mt_json_string(j, "module", ends.at[i].module);
		mt_json_string(j, "function", ends.at[i].function);
		mt_json_u64(j, "count", ends.at[i].allocs);
		mt_json_u64(j, "sites", ends.at[i].sites);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	return 0;
}

static int add_coverage(struct mt_json *j, const struct mt_report *r, const struct mt_totals *t)
{
	mt_json_open(j, "coverage", '{');
	mt_json_bool(j, "exact", t->is_exact);
	mt_json_u64(j, "captures", t->captures);
	mt_json_u64(j, "memo_hits", t->memo_hits);
	mt_json_u64(j, "frames_walked", t->frames_walked);
	mt_json_u64(j, "frames_by_frame_pointer", t->fp_steps);
	mt_json_u64(j, "verified", t->verified);
	mt_json_u64(j, "verify_wrong", t->verify_wrong);
	mt_json_u64(j, "verify_unanswered", t->verify_unsure[0]);
	mt_json_u64(j, "verify_unreadable", t->verify_unsure[1]);
	mt_json_u64(j, "verify_gave_up", t->verify_unsure[2]);
	mt_json_u64(j, "unplaced_allocs", t->unplaced_allocs);
	mt_json_u64(j, "unplaced_bytes", t->unplaced_bytes);
	mt_json_u64(j, "untracked_allocs", t->untracked_allocs);
	mt_json_u64(j, "untracked_bytes", t->untracked_bytes);
	if (add_ends(j, r))
		return -ENOMEM;
	mt_json_open(j, "lost", '[');
	for (uint32_t i = 0; i < MT_ARRAY_LEN(t->lost); i++) {
		if (!t->lost[i])
			continue;
		mt_json_open(j, NULL, '{');
		mt_json_u64(j, "reason", i);
		mt_json_string(j, "what", mt_words_lost(i));
		mt_json_u64(j, "count", t->lost[i]);
		mt_json_close(j, '}');
	}
	mt_json_close(j, ']');
	mt_json_open(j, "notes", '[');
	mt_report_notes(r, emit_warning, j);
	mt_json_close(j, ']');
	mt_json_close(j, '}');
	return 0;
}

/* Sites of mmap, brk and custom heaps: not part of the sums of the malloc heap. */
static int add_other_heaps(struct mt_json *j, const struct mt_report *r, struct mt_err *err)
{
	uint32_t count = 0;
	mt_auto(free) struct mt_heap_sum *sums = mt_report_heaps(r, &count);
	int code = sums ? 0 : mt_err_no_memory(err);

	if (code)
		return code;
	mt_json_open(j, "other_heap_sites", '[');
	for (uint32_t i = 0; i < count && !code; i++) {
		struct mt_table *t = NULL;

		if (!sums[i].heap)
			continue;
		code = mt_report_table(r, sums[i].heap, &t, err);
		for (uint32_t k = 0; !code && k < t->row_count && (!r->top || k < r->top); k++)
			add_row(j, r, t, k);
		mt_table_free(t);
	}
	mt_json_close(j, ']');
	return code;
}

static int add_table(struct mt_json *j, const struct mt_report *r, struct mt_err *err)
{
	bool is_every_heap = mt_report_by(r) == MT_BY_HEAP;
	struct mt_table *t;
	int code = mt_report_table(r, is_every_heap ? (uint32_t)MT_HEAP_ANY : 0, &t, err);

	if (code)
		return code;
	mt_json_string(j, "by", mt_by_name(t->query.by));
	mt_json_string(j, "sort", mt_sort_name(t->query.sort));
	mt_json_u64(j, "count", t->count);
	mt_json_u64(j, "bytes", t->bytes);
	mt_json_estimate(j, t->has_samples ? &t->estimate : NULL);
	add_rows(j, r, t,
		 t->query.by != MT_BY_SITE  ? "rows"
		 : r->show == MT_SHOW_LEAKS ? "top_leak_sites"
					    : "sites");
	if (t->query.by == MT_BY_SITE)
		code = add_other_heaps(j, r, err);
	mt_table_free(t);
	return code;
}

static int add_show(struct mt_json *j, const struct mt_report *r, const struct mt_totals *t,
		    struct mt_err *err)
{
	bool is_counted = mt_show_is_table(r->show) && mt_basis_is_counted_only(r);

	if (is_counted && r->show != MT_SHOW_LARGE) {
		add_sizes(j, r, t);
		add_threads(j, r);
	}
	if (is_counted || (r->show == MT_SHOW_LARGE && t->usable_allocs))
		mt_json_large(j, r);
	if (mt_show_is_table(r->show))
		return add_table(j, r, err);
	if (r->show == MT_SHOW_SIZES)
		add_sizes(j, r, t);
	else if (r->show == MT_SHOW_LIFETIMES)
		add_lifetimes(j, t);
	else if (r->show == MT_SHOW_THREADS)
		add_threads(j, r);
	else if (r->show == MT_SHOW_ERRORS && mt_errors_json(r, j))
		return mt_err_no_memory(err);
	else if (r->show == MT_SHOW_COVERAGE && add_coverage(j, r, t))
		return mt_err_no_memory(err);
	return 0;
}

int mt_report_json(const struct mt_report *r, struct mt_buf *out, struct mt_err *err)
{
	struct mt_json j = {.out = out};
	struct mt_report_leaks leaks;
	struct mt_totals t;
	int code;

	if (mt_report_missing(r))
		return mt_err_set(err, -EINVAL, "%s", mt_report_missing(r));
	if (mt_report_count_leaks(r, &leaks))
		return mt_err_no_memory(err);
	mt_totals_sum(r->profiles, r->profile_count, &t);
	mt_json_open(&j, NULL, '{');
	mt_json_string(&j, "schema", MT_JSON_SCHEMA_REPORT);
	mt_json_string(&j, "show", mt_show_name(r->show));
	mt_json_open(&j, "warnings", '[');
	mt_report_caveats(r, &t, emit_warning, &j);
	mt_json_close(&j, ']');
	mt_json_basis(&j, r, &t);
	if (mt_errors_json_pool(r, &j))
		return mt_err_no_memory(err);
	add_totals(&j, r, &t, &leaks);
	code = add_show(&j, r, &t, err);
	if (!code && add_heaps(&j, r))
		code = mt_err_no_memory(err);
	if (code)
		return code;
	mt_json_open(&j, "processes", '[');
	for (uint32_t i = 0; i < r->profile_count; i++)
		add_process(&j, r->profiles[i]);
	mt_json_close(&j, ']');
	mt_json_close(&j, '}');
	return 0;
}
