/* SPDX-License-Identifier: MIT */
/*
 * The key=value report. The shape of its [LEAK], [LEAK-SUMMARY] and [STATS] lines is fixed: scripts
 * written for it exist. What is ours comes behind, one pair a line.
 */

#include "report/internal.h"

#include "base/escape.h"
#include "model/profile.h"
#include "report/basis.h"
#include "report/errors.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

struct site_context {
	struct mt_buf *out;
	bool has_place;
};

static void emit_site(void *context, const struct mt_stack_line *line)
{
	struct site_context *c = context;

	mt_buf_adds(c->out, c->has_place ? "  " : " ");
	mt_escape(c->out, line->file ? line->file : line->place);
	if (line->file)
		mt_buf_printf(c->out, ":%" PRIu32, line->line);
	c->has_place = true;
}

static void add_estimate(const struct mt_estimate *e, struct mt_buf *out)
{
	struct mt_interval i = mt_estimate_bytes(e);
	uint64_t low, high;

	mt_interval_whole(i, &low, &high);
	mt_buf_printf(out, "  samples=%" PRIu64 "   total_bytes_low=%" PRIu64,
		      e->samples + e->certain, low);
	if (isinf(i.high))
		mt_buf_adds(out, "   total_bytes_high=unknown\n");
	else
		mt_buf_printf(out, "   total_bytes_high=%" PRIu64 "\n", high);
}

static void add_leak(const struct mt_report *r, const struct mt_row *row, struct mt_buf *out)
{
	struct site_context c = {out, false};

	mt_buf_adds(out, "[LEAK] leak_suspects_summary:\n");
	mt_buf_printf(out, "  count=%" PRIu64 "   total_bytes=%" PRIu64 "   avg_size=%" PRIu64 "\n",
		      row->count, row->bytes, row->count ? row->bytes / row->count : 0);
	if (row->estimate)
		add_estimate(row->estimate, out);
	if (row->label && !row->is_unplaced) {
		mt_buf_printf(out, "  %s", mt_by_name(mt_report_by(r)));
		mt_text_line(out, "=", row->label, "\n");
	} else {
		mt_buf_printf(out, "  callstack_hash=0x%016" PRIx64 "\n", row->hash);
	}
	mt_buf_adds(out, "  allocation_site:");
	mt_stack_each(r, row, emit_site, &c);
	mt_buf_adds(out, c.has_place ? "\n" : " unknown\n");
	mt_buf_addc(out, '\n');
}

static void add_leak_sums(const struct mt_table *t, uint32_t wide,
			  const struct mt_small_rows *small, struct mt_buf *out)
{
	mt_buf_printf(out, "[LEAK-SUMMARY] %" PRIu32 " leak suspects, %" PRIu64 " bytes total\n",
		      wide, t->bytes - small->bytes);
	mt_buf_printf(out,
		      "[LEAK-SMALL] sites=%" PRIu32 "\n[LEAK-SMALL] count=%" PRIu64
		      "\n[LEAK-SMALL] total_bytes=%" PRIu64 "\n",
		      small->rows, small->count, small->bytes);
	mt_buf_printf(out,
		      "[LEAK-SUPPRESSED] sites=%" PRIu64 "\n[LEAK-SUPPRESSED] count=%" PRIu64
		      "\n[LEAK-SUPPRESSED] total_bytes=%" PRIu64 "\n",
		      t->suppressed_sites, t->suppressed_count, t->suppressed_bytes);
}

static void add_stat(struct mt_buf *out, const char *name, uint64_t value)
{
	mt_buf_printf(out, "[STATS] %s=%" PRIu64 "\n", name, value);
}

static void add_stats(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out)
{
	add_stat(out, "total_alloc_count", t->allocs);
	add_stat(out, "total_alloc_bytes", t->alloc_bytes);
	add_stat(out, "peak_alloc_bytes", t->peak_bytes);
	add_stat(out, "current_alloc_bytes", t->live_bytes);
	add_stat(out, "total_free_count", t->frees);
	add_stat(out, "total_free_bytes", t->freed_bytes);
	add_stat(out, "peak_bound_bytes", t->peak_bound_bytes);
	if (!mt_basis_is_counted_only(r))
		add_stat(out, "temporary_count", t->temporaries);
	add_stat(out, "realloc_count", t->reallocs);
	add_stat(out, "unknown_free_count", t->unknown_frees);
	add_stat(out, "failed_alloc_count", t->failed_allocs);
}

static void emit_note(void *context, const char *sentence)
{
	mt_text_line(context, "[NOTE] ", sentence, "\n");
}

static void emit_warning(void *context, const char *sentence)
{
	mt_text_line(context, "[WARNING] ", sentence, "\n");
}

int mt_report_kv(const struct mt_report *r, struct mt_buf *out, struct mt_err *err)
{
	struct mt_small_rows small = {0};
	struct mt_report leaks = *r;
	struct mt_table *t;
	struct mt_totals totals;
	uint32_t wide;
	int code;

	if (mt_report_missing(r))
		return mt_err_set(err, -EINVAL, "%s", mt_report_missing(r));
	if (r->show == MT_SHOW_ERRORS) {
		return mt_errors_kv(r, out) ? mt_err_no_memory(err) : 0;
	}
	if (r->show != MT_SHOW_LEAKS && r->show != MT_SHOW_LIVE && r->show != MT_SHOW_SUMMARY)
		return mt_err_set(err, -EINVAL, "--show=%s has no key=value form; use --json%s",
				  mt_show_name(r->show),
				  r->show == MT_SHOW_COVERAGE ? "" : " or --csv");
	if (r->show == MT_SHOW_SUMMARY)
		leaks.show = MT_SHOW_LEAKS;
	code = mt_report_table(&leaks, 0, &t, err);
	if (code)
		return code;
	mt_totals_sum(r->profiles, r->profile_count, &totals);
	mt_basis_sentences(r, &totals, emit_note, out);
	mt_report_caveats(r, &totals, emit_warning, out);
	if (leaks.show == MT_SHOW_LEAKS && r->sort == MT_SORT_BYTES)
		small = mt_table_below(t, r->leak_threshold_bytes);
	wide = t->row_count - small.rows;
	for (uint32_t i = 0; r->show != MT_SHOW_SUMMARY && i < wide && (!r->top || i < r->top); i++)
		add_leak(r, &t->row[i], out);
	if (!mt_basis_is_counted_only(r))
		add_leak_sums(t, wide, &small, out);
	add_stats(r, &totals, out);
	if (totals.looked) {
		add_stat(out, "lost_count", totals.lost_count);
		add_stat(out, "lost_bytes", totals.lost_bytes);
		add_stat(out, "reachable_count", totals.held_count);
		add_stat(out, "reachable_bytes", totals.held_bytes);
	}
	if (totals.usable_allocs)
		add_stat(out, "usable_alloc_count", totals.usable_allocs);
	if (totals.is_sampled)
		add_stat(out, "sample_count", totals.samples);
	if (totals.no_block || totals.no_site) {
		add_stat(out, "samples_without_block_count", totals.no_block);
		add_stat(out, "samples_without_site_count", totals.no_site);
	}
	if (totals.left_by_size)
		add_stat(out, "samples_left_by_size_count", totals.left_by_size);
	if (totals.left_by_module)
		add_stat(out, "samples_left_by_module_count", totals.left_by_module);
	if (mt_errors_were_looked_for(r))
		add_stat(out, "memory_error_count", mt_report_count_errors(r));
	if (totals.mismatched_frees)
		add_stat(out, "mismatched_free_count", totals.mismatched_frees);
	mt_table_free(t);
	return 0;
}
