/* SPDX-License-Identifier: MIT */
/* The report as CSV (RFC 4180, but lines end in a newline alone): one header line, one line a row.
 */

#include "report/internal.h"

#include "base/cleanup.h"
#include "base/escape.h"
#include "model/profile.h"
#include "report/basis.h"
#include "report/errors.h"
#include "report/text_show.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

void mt_csv_field(struct mt_buf *out, const char *text, bool last)
{
	mt_auto(mt_buf) struct mt_buf clean = {0};

	out->failed |= mt_escape(&clean, text) != 0;
	text = mt_buf_text(&clean);
	if (strpbrk(text, ",\"")) {
		mt_buf_addc(out, '"');
		for (; *text; text++) {
			if (*text == '"')
				mt_buf_addc(out, '"');
			mt_buf_addc(out, *text);
		}
		mt_buf_addc(out, '"');
	} else {
		mt_buf_adds(out, text);
	}
	mt_buf_addc(out, last ? '\n' : ',');
}

void mt_csv_number(struct mt_buf *out, uint64_t number, bool last)
{
	mt_buf_printf(out, "%" PRIu64 "%c", number, last ? '\n' : ',');
}

void mt_csv_stack_line(void *context, const struct mt_stack_line *line)
{
	struct mt_buf *out = context;

	if (out->len)
		mt_buf_addc(out, ';');
	mt_buf_adds(out, line->function ? line->function : line->file ? "" : line->place);
	if (line->file)
		mt_buf_printf(out, "%s%s:%" PRIu32, line->function ? " " : "", line->file,
			      line->line);
}

void mt_csv_stack(const struct mt_report *r, const struct mt_row *row, struct mt_buf *out,
		  bool last)
{
	mt_auto(mt_buf) struct mt_buf text = {0};

	mt_stack_each(r, row, mt_csv_stack_line, &text);
	out->failed |= text.failed;
	mt_csv_field(out, mt_buf_text(&text), last);
}

static void add_row(const struct mt_report *r, const struct mt_row *row, uint32_t rank,
		    bool has_samples, struct mt_buf *out)
{
	mt_csv_number(out, rank, false);
	if (row->label)
		mt_csv_field(out, row->label, false);
	else
		mt_buf_printf(out, "%016" PRIx64 ",", row->hash);
	mt_csv_number(out, row->count, false);
	mt_csv_number(out, row->bytes, false);
	mt_csv_number(out, row->count ? row->bytes / row->count : 0, false);
	mt_csv_number(out, row->allocs, false);
	mt_csv_number(out, row->alloc_bytes, false);
	mt_csv_number(out, row->frees, false);
	mt_csv_number(out, row->freed_bytes, false);
	mt_csv_number(out, row->live_count, false);
	mt_csv_number(out, row->live_bytes, false);
	mt_csv_number(out, row->oldest_age_ns, false);
	mt_csv_number(out, row->is_growing, false);
	mt_csv_stack(r, row, out, !has_samples);
	if (!has_samples)
		return;
	mt_csv_estimate(out, row->estimate);
}

static int add_table(const struct mt_report *r, struct mt_buf *out, struct mt_err *err)
{
	bool is_every_heap = mt_report_by(r) == MT_BY_HEAP;
	struct mt_table *t;
	int code = mt_report_table(r, is_every_heap ? (uint32_t)MT_HEAP_ANY : 0, &t, err);

	if (code)
		return code;
	mt_buf_printf(
		out,
		"rank,%s,count,bytes,avg_size,allocs,alloc_bytes,frees,freed_bytes,live_count,"
		"live_bytes,oldest_age_ns,growing,stack",
		t->query.by == MT_BY_SITE ? "callstack_hash" : mt_by_name(t->query.by));
	mt_buf_adds(out, t->has_samples ? ",samples,bytes_low,bytes_high\n" : "\n");
	for (uint32_t i = 0; i < t->row_count && (!r->top || i < r->top); i++)
		add_row(r, &t->row[i], i + 1, t->has_samples, out);
	mt_table_free(t);
	return 0;
}

static void add_hist(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out)
{
	struct mt_size_live live;
	uint64_t lo, hi;

	mt_show_size_live(r, &live);
	mt_buf_adds(out, r->show == MT_SHOW_SIZES ? "from,to,allocs,live_count,live_bytes\n"
						  : "from_ns,to_ns,frees\n");
	for (uint32_t i = 0; r->show == MT_SHOW_SIZES && i < MT_HIST_BUCKETS; i++) {
		mt_show_size_range(i, &lo, &hi);
		mt_buf_printf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n",
			      lo, hi, t->size_hist[i], live.count[i], live.bytes[i]);
	}
	for (uint32_t i = 0; r->show == MT_SHOW_LIFETIMES && i < MT_LIFE_HIST_BUCKETS; i++) {
		mt_show_life_range(i, t->life_unit_ns, &lo, &hi);
		mt_buf_printf(out, "%" PRIu64 ",%" PRIu64 ",%" PRIu64 "\n", lo, hi,
			      t->life_hist[i]);
	}
}

static void add_threads(const struct mt_report *r, struct mt_buf *out)
{
	mt_buf_adds(out, "pid,tid,name,allocs,alloc_bytes,frees,freed_bytes,reallocs,temporaries,"
			 "balance_bytes,peak_bytes,realloc_grown,allocs_per_hour,"
			 "reallocs_per_hour,realloc_grown_per_hour\n");
	for (uint32_t i = 0; i < r->profile_count; i++) {
		const struct mt_profile *p = r->profiles[i];

		for (uint32_t k = 1; k < p->thread_count; k++) {
			const struct mt_profile_thread *th = &p->thread[k];

			if (!th->tid)
				continue;
			mt_buf_printf(out, "%" PRId32 ",%" PRIu32 ",", p->pid, th->tid);
			mt_csv_field(out, th->name, false);
			mt_buf_printf(out,
				      "%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64 ",%" PRIu64
				      ",%" PRIu64 ",%" PRId64 ",%" PRId64 ",",
				      th->heap[0].allocs, th->heap[0].bytes, th->heap[0].frees,
				      th->heap[0].freed_bytes, th->reallocs, th->temporaries,
				      th->live_bytes, th->peak_bytes);
			mt_csv_number(out, th->realloc_grown, false);
			mt_csv_number(out, mt_show_per_hour(p, th, th->heap[0].allocs), false);
			mt_csv_number(out, mt_show_per_hour(p, th, th->reallocs), false);
			mt_csv_number(out, mt_show_per_hour(p, th, th->realloc_grown), true);
		}
	}
}

static int add_heaps(const struct mt_report *r, struct mt_buf *out)
{
	uint32_t count = 0;
	mt_auto(free) struct mt_heap_sum *sums = mt_report_heaps(r, &count);

	if (!sums)
		return -ENOMEM;
	mt_buf_adds(out, "heap,live_count,live_bytes,allocs,alloc_bytes,frees,freed_bytes\n");
	for (uint32_t i = 0; i < count; i++) {
		mt_csv_field(out, sums[i].name, false);
		mt_csv_number(out, sums[i].live_count, false);
		mt_csv_number(out, sums[i].live_bytes, false);
		mt_csv_number(out, sums[i].allocs, false);
		mt_csv_number(out, sums[i].bytes, false);
		mt_csv_number(out, sums[i].frees, false);
		mt_csv_number(out, sums[i].freed_bytes, true);
	}
	return 0;
}

static int add_large(const struct mt_report *r, struct mt_buf *out)
{
	uint64_t bytes;
	uint32_t count = 0;
	mt_auto(free) struct mt_big_row *rows = mt_basis_big(r, &count, &bytes);

	if (!rows)
		return -ENOMEM;
	mt_buf_adds(out, "pid,tid,usable_bytes,age_ns,address\n");
	for (uint32_t i = 0; i < count && (!r->top || i < r->top); i++) {
		const struct mt_profile *p = rows[i].p;
		const struct mt_profile_big *b = rows[i].big;

		mt_buf_printf(out, "%" PRId32 ",", p->pid);
		mt_csv_number(out, p->thread[b->thread].tid, false);
		mt_csv_number(out, b->usable_bytes, false);
		mt_csv_number(out, p->duration_ns - MT_MIN(b->born_ns, p->duration_ns), false);
		mt_csv_number(out, b->address, true);
	}
	return 0;
}

int mt_report_csv(const struct mt_report *r, struct mt_buf *out, struct mt_err *err)
{
	struct mt_totals t;

	if (mt_report_missing(r))
		return mt_err_set(err, -EINVAL, "%s", mt_report_missing(r));
	if (r->show == MT_SHOW_LARGE && mt_basis_is_counted_only(r))
		return add_large(r, out) ? mt_err_no_memory(err) : 0;
	if (mt_show_is_table(r->show) && mt_basis_is_counted_only(r))
		return mt_err_set(err, -EINVAL,
				  "statistics mode records no call stacks, so there are no rows; "
				  "--show=sizes, threads, large and heaps have a CSV form");
	if (mt_show_is_table(r->show))
		return add_table(r, out, err);
	mt_totals_sum(r->profiles, r->profile_count, &t);
	switch (r->show) {
	case MT_SHOW_SIZES:
	case MT_SHOW_LIFETIMES:
		add_hist(r, &t, out);
		return 0;
	case MT_SHOW_THREADS:
		add_threads(r, out);
		return 0;
	case MT_SHOW_ERRORS:
		return mt_errors_csv(r, out) ? mt_err_no_memory(err) : 0;
	case MT_SHOW_HEAPS:
		return add_heaps(r, out) ? mt_err_no_memory(err) : 0;
	default:
		return mt_err_set(err, -EINVAL, "--show=%s has no CSV form; use --json",
				  mt_show_name(r->show));
	}
}
