/* SPDX-License-Identifier: MIT */
/*
 * The report for people. Order: what makes a number inexact, the verdict in one line, the totals,
 * the rows with their call stacks, what was left out, the other heaps, the processes.
 */

#include "report/report.h"

#include "base/alloc.h"
#include "base/escape.h"
#include "base/units.h"
#include "model/profile.h"
#include "report/alike.h"
#include "report/basis.h"
#include "report/errors.h"
#include "report/grid.h"
#include "report/internal.h"
#include "report/looks.h"
#include "report/text_sampled.h"
#include "report/text_show.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { VERDICT_ROWS = 3, VERDICT_PERCENT = 80, OTHER_HEAP_ROWS = 3 };

const char *mt_text_strong(const struct mt_report *r)
{
	return r->color ? "\033[1m" : "";
}
const char *mt_text_warn(const struct mt_report *r)
{
	return r->color ? "\033[33m" : "";
}
const char *mt_text_dim(const struct mt_report *r)
{
	return r->color ? "\033[2m" : "";
}
const char *mt_text_end(const struct mt_report *r)
{
	return r->color ? "\033[0m" : "";
}

void mt_text_size(struct mt_buf *out, uint64_t bytes)
{
	char size[MT_UNITS_TEXT_MAX], exact[MT_UNITS_TEXT_MAX];

	mt_buf_adds(out, mt_units_size(bytes, size));
	if (bytes >= 1024)
		mt_buf_printf(out, " (%s B)", mt_units_count(bytes, exact));
}

void mt_text_line(struct mt_buf *out, const char *before, const char *text, const char *after)
{
	mt_buf_adds(out, before);
	mt_escape(out, text);
	mt_buf_adds(out, after);
}

static const char *plural(uint64_t count, const char *one, const char *many)
{
	return count == 1 ? one : many;
}

/* ---- call stacks ---- */

struct stack_context {
	const struct mt_report *r;
	struct mt_buf *out;
	uint32_t at;
};

static void emit_line(void *context, const struct mt_stack_line *line)
{
	struct stack_context *c = context;

	mt_buf_printf(c->out, "    #%-2" PRIu32 " ", c->at++);
	mt_escape(c->out, line->function ? line->function : line->file ? "" : line->place);
	if (line->file) {
		mt_buf_adds(c->out, line->function ? "  " : "");
		mt_escape(c->out, line->file);
		mt_buf_printf(c->out, ":%" PRIu32, line->line);
	} else if (line->function) {
		mt_buf_printf(c->out, "  %s", mt_text_dim(c->r));
		mt_escape(c->out, line->place);
		mt_buf_adds(c->out, mt_text_end(c->r));
	}
	if (line->is_inlined)
		mt_buf_adds(c->out, "  [inlined]");
	if (line->is_by_frame_pointer)
		mt_buf_adds(c->out, "  [by frame pointer]");
	mt_buf_addc(c->out, '\n');
}

void mt_text_stack_at(const struct mt_report *r, const struct mt_profile *p, uint32_t node,
		      struct mt_buf *out)
{
	struct stack_context c = {r, out, 0};
	uint32_t hidden, end;

	if (!r->stack)
		return;
	hidden = mt_stack_each_at(r, p, node, emit_line, &c);
	end = p->node[node].end;
	if (hidden)
		mt_buf_printf(out, "    ... %" PRIu32 " more %s (--stack=%u shows all)\n", hidden,
			      plural(hidden, "frame", "frames"), MT_REPORT_STACK_MAX);
	else if (end != MT_PROFILE_END_COMPLETE && end != MT_PROFILE_END_UNKNOWN)
		mt_buf_printf(out, "    ... %s\n", mt_words_stack_end(end));
	else if (!c.at)
		mt_buf_adds(out, "    (no call stack)\n");
}

void mt_text_stack(const struct mt_report *r, const struct mt_row *row, struct mt_buf *out)
{
	if (row->site)
		mt_text_stack_at(r, r->profiles[row->profile], row->node, out);
}

/* ---- verdict ---- */

static const char *row_noun(enum mt_by by, uint64_t count)
{
	static const char *const nouns[][2] = {
		[MT_BY_SITE] = {"site", "sites"},
		[MT_BY_FUNCTION] = {"function", "functions"},
		[MT_BY_MODULE] = {"module", "modules"},
		[MT_BY_THREAD] = {"thread", "threads"},
		[MT_BY_SIZE] = {"size class", "size classes"},
		[MT_BY_HEAP] = {"heap", "heaps"},
		[MT_BY_LABEL] = {"label", "labels"},
	};
	return nouns[by][count != 1];
}

/* What rows count. */
static const char *unit_noun(const struct mt_report *r, uint64_t count)
{
	if (r->show == MT_SHOW_TOTAL || r->show == MT_SHOW_TEMPORARY)
		return plural(count, "allocation", "allocations");
	return plural(count, "block", "blocks");
}

/* The widest rows, at most VERDICT_ROWS, that together hold VERDICT_PERCENT. */
struct verdict {
	uint64_t rows, value, growing;
};

static struct verdict find_verdict(const struct mt_table *t, bool by_count)
{
	uint64_t taken[VERDICT_ROWS];
	uint64_t total = by_count ? t->count : t->bytes;
	struct verdict v = {0};

	while (v.rows < VERDICT_ROWS && v.value < total / 100 * VERDICT_PERCENT + 1) {
		uint64_t best = UINT64_MAX, best_value = 0;

		for (uint64_t i = 0; i < t->row_count; i++) {
			uint64_t value = by_count ? t->row[i].count : t->row[i].bytes;
			bool is_taken = false;

			for (uint64_t k = 0; k < v.rows; k++)
				is_taken |= taken[k] == i;
			if (!is_taken && value > best_value) {
				best = i;
				best_value = value;
			}
		}
		if (best == UINT64_MAX)
			break;
		taken[v.rows++] = best;
		v.value += best_value;
		v.growing += t->row[best].is_growing;
	}
	return v;
}

static const char *verdict_object(const struct mt_report *r, const struct mt_table *t)
{
	if (r->show == MT_SHOW_LEAKS && t->has_samples)
		return "still live";
	switch (r->show) {
	case MT_SHOW_PEAK:
		return "live at the peak";
	case MT_SHOW_TOTAL:
		return "allocated";
	case MT_SHOW_LARGE:
		return "live in large blocks";
	default:
		return r->min_age_ns ? "live and old enough" : "live";
	}
}

/* more: bytes that the counters have beside the rows. */
static void add_empty_verdict(const struct mt_report *r, const struct mt_table *t, uint64_t more,
			      struct mt_buf *out)
{
	if (r->modules && *r->modules)
		mt_buf_adds(out, "nothing in these modules");
	else if (t->has_samples && t->query.measure == MT_MEASURE_LIVE)
		mt_text_no_sample(r, t->estimate.is_least, out);
	else if (t->suppressed_sites)
		mt_buf_adds(out, "nothing is live but what is suppressed");
	else if (r->show == MT_SHOW_TEMPORARY)
		mt_buf_adds(out, "no temporary allocations");
	else if (r->show == MT_SHOW_LARGE)
		mt_buf_adds(out, "no live block of 1.0 MiB or more");
	else if (r->show == MT_SHOW_TOTAL)
		mt_buf_adds(out, "nothing was allocated");
	else if (r->min_age_ns)
		mt_buf_adds(out, "no live block is that old");
	else if (r->show == MT_SHOW_PEAK)
		mt_buf_adds(out, "nothing was live at the peak");
	else
		mt_buf_adds(out, more ? "nothing is live of what was recorded"
				      : "nothing is live: every block was freed");
}

static void add_verdict(const struct mt_report *r, const struct mt_table *t, struct mt_buf *out)
{
	bool by_count = !t->bytes && t->count;
	struct verdict v = find_verdict(t, by_count);
	uint64_t total = by_count ? t->count : t->bytes;
	uint64_t more = mt_basis_counted_more(r, t);
	bool is_estimate = mt_is_estimate(&t->estimate);
	char size[MT_UNITS_TEXT_MAX], percent[MT_UNITS_TEXT_MAX];

	mt_buf_adds(out, mt_text_strong(r));
	if (!t->row_count || !v.rows) {
		add_empty_verdict(r, t, more, out);
	} else if (by_count) {
		mt_buf_printf(out, "%" PRIu64 " %s %s %s of %s %s", v.rows,
			      row_noun(t->query.by, v.rows), plural(v.rows, "makes", "make"),
			      mt_units_percent(v.value, total, percent),
			      mt_units_count(total, size),
			      r->show == MT_SHOW_TEMPORARY ? "temporary allocations"
			      : r->show == MT_SHOW_TOTAL   ? "allocations"
							   : "live blocks of 0 bytes");
	} else {
		char estimated[64];

		snprintf(estimated, sizeof(estimated), "%san estimated ",
			 mt_text_bound(&t->estimate));
		mt_buf_printf(out, "%" PRIu64 " %s %s %s of %s%s", v.rows,
			      row_noun(t->query.by, v.rows),
			      r->show == MT_SHOW_TOTAL ? (v.rows == 1 ? "makes" : "make")
						       : (v.rows == 1 ? "holds" : "hold"),
			      mt_units_percent(v.value, total, percent),
			      is_estimate ? estimated : "", mt_units_size(total, size));
		if (is_estimate)
			mt_text_range(out, &t->estimate);
		mt_buf_printf(out, " %s", verdict_object(r, t));
		if (v.growing && v.rows == 1)
			mt_buf_adds(out, "; it grows steadily");
		else if (v.growing)
			mt_buf_printf(out, "; %" PRIu64 " of them %s steadily", v.growing,
				      plural(v.growing, "grows", "grow"));
	}
	if (v.rows && !by_count)
		mt_looks_text_verdict(t, out);
	if (v.rows && t->suppressed_sites)
		mt_buf_printf(out, "; suppressed and not counted here: %s",
			      mt_units_size(t->suppressed_bytes, size));
	if (more)
		mt_buf_printf(out,
			      "; the counters have %s more: of what was allocated in statistics "
			      "mode no call site is known",
			      mt_units_size(more, size));
	if (t->estimate.is_least && mt_basis_knows_live(r, t))
		mt_buf_printf(out, "; by the counters %s are live",
			      mt_units_size(mt_basis_live(r), size));
	mt_buf_printf(out, "%s\n", mt_text_end(r));
	if (r->modules && *r->modules)
		mt_text_line(out, "  only sites in modules '", r->modules,
			     "'; the totals are of all\n");
}

/* ---- head ---- */

static void emit_caveat(void *context, const char *sentence)
{
	struct stack_context *c = context;

	mt_buf_printf(c->out, "%swarning: ", mt_text_warn(c->r));
	mt_escape(c->out, sentence);
	mt_buf_printf(c->out, "%s\n", mt_text_end(c->r));
}

static void emit_note(void *context, const char *sentence)
{
	struct stack_context *c = context;

	mt_text_line(c->out, "note: ", sentence, "\n");
}

static bool is_dump(const struct mt_profile *p)
{
	return p->source == MT_PROFILE_OF_HEAP_DUMP;
}

/* Of dumps nothing is known but what was live. */
static bool all_dumps(const struct mt_report *r)
{
	for (uint32_t i = 0; i < r->profile_count; i++)
		if (!is_dump(r->profiles[i]))
			return false;
	return true;
}

/*
 * The name by which the user knows it, where the file's says little: one file may hold several
 * programs. "" where one is the beginning of the other (python3 is python3.11).
 */
static const char *started_as(const struct mt_profile *p, char *name, size_t len)
{
	const char *first = *p->cmdline == '-' ? p->cmdline + 1 : p->cmdline;
	const char *exe = mt_names_base(p->exe), *base;

	snprintf(name, len, "%.*s", (int)strcspn(first, " "), first);
	base = mt_names_base(name);
	if (!*base || !strncmp(base, exe, MT_MIN(strlen(base), strlen(exe))))
		return "";
	return base;
}

static void add_process_line(const struct mt_profile *p, struct mt_buf *out)
{
	char end[128], time[MT_UNITS_TEXT_MAX], name[256];
	const char *known_as = started_as(p, name, sizeof(name));

	if (is_dump(p)) {
		mt_escape(out, *p->exe ? mt_names_base(p->exe) : "unknown");
		mt_buf_adds(out, ", from its heap dump");
		return;
	}
	mt_escape(out, mt_names_base(p->exe));
	mt_buf_printf(out, " (pid %" PRId32, p->pid);
	if (*known_as)
		mt_text_line(out, ", started as ", known_as, "");
	mt_buf_printf(out, ") %s",
		      p->process_alive ? "is running"
				       : mt_words_end(p->end_kind ? p->end_kind : UINT32_MAX,
						      p->end_code, end, sizeof(end)));
	mt_buf_printf(out, ", %s%s", p->process_alive ? "so far " : "",
		      mt_units_time(p->duration_ns, time));
}

static void add_total(struct mt_buf *out, const char *name, uint64_t bytes, uint64_t count,
		      const char *one, const char *many)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "  %-9s  ", name);
	mt_text_size(out, bytes);
	mt_buf_printf(out, " in %s %s", mt_units_count(count, text), plural(count, one, many));
}

static void add_rare(struct mt_buf *out, const char *name, uint64_t count, const char *what)
{
	char text[MT_UNITS_TEXT_MAX];

	if (count)
		mt_buf_printf(out, "  %-9s  %s %s\n", name, mt_units_count(count, text), what);
}

static void add_peak(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "  peak       %s", t->is_peak_estimate ? "about " : "");
	mt_text_size(out, t->peak_bytes);
	if (r->profile_count > 1)
		mt_buf_adds(out, ", the processes' peaks added");
	else
		mt_buf_printf(out, ", %s after the start",
			      mt_units_time(r->profiles[0]->peak_ns, text));
	if (t->peak_bound_bytes && !t->is_peak_estimate)
		mt_buf_printf(out, ", known within %s", mt_units_size(t->peak_bound_bytes, text));
	if (t->untracked_allocs)
		mt_buf_adds(out, ", by the counters alone");
	mt_buf_addc(out, '\n');
}

/*
 * Where blocks had no record, the counters do not know what was freed of them: what is known to be
 * live, and the most that may be.
 */
static void add_live(const struct mt_totals *t, struct mt_buf *out)
{
	uint64_t unseen = MT_MIN(t->unknown_frees, t->untracked_allocs);
	char text[MT_UNITS_TEXT_MAX];

	if (!t->untracked_allocs) {
		add_total(out, "live", t->live_bytes, t->live_count, "block", "blocks");
		mt_buf_addc(out, '\n');
		return;
	}
	add_total(out, "live", t->block_bytes, t->block_count, "block", "blocks");
	mt_buf_adds(out, " that are recorded\n");
	add_total(out, "at most", t->live_bytes, t->live_count - MT_MIN(unseen, t->live_count),
		  "block", "blocks");
	mt_buf_printf(out, ": %s %s not followed, the block table was full\n",
		      mt_units_count(t->untracked_allocs, text),
		      plural(t->untracked_allocs, "block was", "blocks were"));
}

static void add_totals(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	if (r->profile_count == 1) {
		mt_buf_adds(out, "  process    ");
		add_process_line(r->profiles[0], out);
		mt_buf_addc(out, '\n');
	} else {
		mt_buf_printf(out, "  processes  %" PRIu32 ", listed below\n", r->profile_count);
	}
	add_live(t, out);
	if (mt_show_measure(r->show) == MT_MEASURE_LIVE || r->show == MT_SHOW_SUMMARY)
		mt_looks_text_totals(r, t, out);
	if (all_dumps(r))
		return;
	add_peak(r, t, out);
	add_total(out, "allocated", t->alloc_bytes, t->allocs, "allocation", "allocations");
	if (t->temporaries)
		mt_buf_printf(out, ", %s of them temporary", mt_units_count(t->temporaries, text));
	mt_buf_addc(out, '\n');
	add_total(out, "freed", t->freed_bytes, t->frees, "free", "frees");
	mt_buf_addc(out, '\n');
	add_rare(out, "unknown", t->unknown_frees, "frees of addresses that were not recorded");
	add_rare(out, "failed", t->failed_allocs, "allocations that returned no memory");
	add_rare(out, "mismatch", t->mismatched_frees,
		 "frees by a function that does not go with the allocation");
	mt_errors_text_pool(r, out);
}

/* ---- rows ---- */

static void add_row_facts(const struct mt_report *r, const struct mt_table *t,
			  const struct mt_row *row, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	if (r->show == MT_SHOW_TOTAL)
		mt_buf_printf(out, ", %s%s still live",
			      mt_is_estimate(row->estimate) ? "about " : "",
			      mt_units_size(row->live_bytes, text));
	if (r->show == MT_SHOW_PEAK) {
		mt_buf_printf(out, ", own peak %s%s", mt_is_estimate(row->estimate) ? "about " : "",
			      mt_units_size(row->peak_bytes, text));
		if (row->peak_bound_bytes)
			mt_buf_printf(out, " within %s",
				      mt_units_size(row->peak_bound_bytes, text));
	}
	if (row->live_count && mt_show_measure(r->show) == MT_MEASURE_LIVE &&
	    !is_dump(r->profiles[row->profile])) {
		mt_looks_text_row(t, row, out);
		mt_buf_printf(out, ", oldest %s", mt_units_time(row->oldest_age_ns, text));
		if (row->is_growing)
			mt_buf_printf(out, ", %sgrows steadily%s", mt_text_warn(r), mt_text_end(r));
	}
}

/* The row's measure in numbers. */
static void add_figures(const struct mt_report *r, const struct mt_table *t,
			const struct mt_row *row, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_text_size(out, row->bytes);
	mt_buf_printf(out, "%s, %s", mt_text_end(r), mt_units_percent(row->bytes, t->bytes, text));
	mt_buf_printf(out, ", %s %s", mt_units_count(row->count, text), unit_noun(r, row->count));
	if (row->count > 1)
		mt_buf_printf(out, " of %s on average",
			      mt_units_size(row->bytes / row->count, text));
}

static void add_temporary_figures(const struct mt_report *r, const struct mt_table *t,
				  const struct mt_row *row, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%s temporary%s", mt_units_count(row->count, text), mt_text_end(r));
	mt_buf_printf(out, " of %s %s%s", mt_units_count(row->recorded, text),
		      t->has_samples ? "sample" : "allocation", row->recorded == 1 ? "" : "s");
	mt_buf_printf(out, ", %s of all temporary ones",
		      mt_units_percent(row->count, t->count, text));
}

static void add_site_row(const struct mt_report *r, const struct mt_table *t, uint32_t at,
			 struct mt_buf *out)
{
	const struct mt_row *row = &t->row[at];

	mt_buf_printf(out, "\n%" PRIu32 ". %s", at + 1, mt_text_strong(r));
	if (r->show == MT_SHOW_TEMPORARY)
		add_temporary_figures(r, t, row, out);
	else if (mt_is_estimate(row->estimate))
		mt_text_estimated_row(r, t, row, unit_noun(r, row->count), out);
	else
		add_figures(r, t, row, out);
	add_row_facts(r, t, row, out);
	mt_buf_addc(out, '\n');
	if (row->label)
		mt_text_line(out, "    ", row->label, "\n");
	else
		mt_buf_printf(
			out, "    %s, callstack_hash 0x%016" PRIx64 "\n",
			row->site ? mt_words_call(r->profiles[row->profile]->site[row->site].call)
				  : "allocation",
			row->hash);
	if (!row->label && *mt_row_tag(r, row))
		mt_text_line(out, "    label '", mt_row_tag(r, row), "'\n");
	mt_text_stack(r, row, out);
}

/* What the column of counts counts. */
static const char *count_head(const struct mt_table *t)
{
	if (t->query.measure == MT_MEASURE_TOTAL)
		return "allocations";
	if (t->has_samples &&
	    (t->query.measure == MT_MEASURE_PEAK || t->query.measure == MT_MEASURE_TEMPORARY))
		return "samples";
	return "blocks";
}

static void add_range_cell(struct mt_grid *g, const struct mt_estimate *e)
{
	struct mt_buf cell = {0};

	mt_text_interval(&cell, mt_estimate_bytes(e), /* is_count */ false);
	mt_grid_add(g, mt_buf_text(&cell));
	mt_buf_done(&cell);
}

static int add_label_rows(const struct mt_report *r, const struct mt_table *t, uint32_t count,
			  struct mt_buf *out)
{
	mt_auto(mt_grid) struct mt_grid g = {0};
	char size[MT_UNITS_TEXT_MAX], exact[MT_UNITS_TEXT_MAX], percent[MT_UNITS_TEXT_MAX];
	bool by_count = r->show == MT_SHOW_TEMPORARY || (t->query.by == MT_BY_SIZE && !t->bytes);

	mt_grid_init(&g, "rrrrl");
	mt_grid_add(&g, by_count ? "" : "size");
	mt_grid_add(&g, by_count ? "" : t->has_samples ? "95 %" : "bytes");
	mt_grid_add(&g, "share");
	mt_grid_add(&g, count_head(t));
	mt_grid_add(&g, row_noun(t->query.by, 1));
	for (uint32_t i = 0; i < count; i++) {
		const struct mt_row *row = &t->row[i];

		mt_grid_add(&g, by_count ? "" : mt_units_size(row->bytes, size));
		if (!by_count && mt_is_estimate(row->estimate))
			add_range_cell(&g, row->estimate);
		else
			mt_grid_add(&g, by_count ? "" : mt_units_count(row->bytes, exact));
		mt_grid_add(&g, by_count ? mt_units_percent(row->count, t->count, percent)
					 : mt_units_percent(row->bytes, t->bytes, percent));
		mt_grid_add(&g, mt_units_count(row->count, size));
		mt_grid_addf(&g, "%s%s", row->label, t->query.by == MT_BY_SIZE ? " B" : "");
	}
	mt_buf_addc(out, '\n');
	return mt_grid_write(&g, 2, out);
}

/* Rows of a leak table below the threshold come last in one line: how many are above it? */
static uint32_t count_wide_rows(const struct mt_report *r, const struct mt_table *t)
{
	uint32_t count = t->row_count;

	if (r->show != MT_SHOW_LEAKS || t->query.sort != MT_SORT_BYTES)
		return count;
	while (count && t->row[count - 1].bytes < r->leak_threshold_bytes)
		count--;
	return count;
}

static void add_rest(const struct mt_report *r, const struct mt_table *t, uint32_t shown,
		     uint32_t wide, struct mt_buf *out)
{
	struct mt_small_rows hidden = {0}, small = {0};
	char size[MT_UNITS_TEXT_MAX], count[MT_UNITS_TEXT_MAX];

	for (uint32_t i = shown; i < t->row_count; i++) {
		struct mt_small_rows *rest = i < wide ? &hidden : &small;

		rest->rows++;
		rest->count += t->row[i].count;
		rest->bytes += t->row[i].bytes;
	}
	if (hidden.rows || small.rows || t->suppressed_sites || t->is_partial)
		mt_buf_addc(out, '\n');
	if (hidden.rows)
		mt_buf_printf(out, "%" PRIu32 " more %s: %s in %s %s (--top=0 shows all)\n",
			      hidden.rows, row_noun(t->query.by, hidden.rows),
			      mt_units_size(hidden.bytes, size),
			      mt_units_count(hidden.count, count), unit_noun(r, hidden.count));
	if (small.rows)
		mt_buf_printf(out, "%" PRIu32 " smaller %s, each below %s: ", small.rows,
			      row_noun(t->query.by, small.rows),
			      mt_units_size(r->leak_threshold_bytes, size));
	if (small.rows) {
		mt_text_size(out, small.bytes);
		mt_buf_printf(out, " in %s %s (--leak-threshold=0 shows %s)\n",
			      mt_units_count(small.count, count),
			      plural(small.count, "block", "blocks"),
			      plural(small.rows, "it", "them"));
	}
	if (t->suppressed_sites) {
		mt_buf_printf(out, "suppressed: %" PRIu64 " %s, ", t->suppressed_sites,
			      plural(t->suppressed_sites, "site", "sites"));
		mt_text_size(out, t->suppressed_bytes);
		mt_buf_printf(out, " in %s %s\n", mt_units_count(t->suppressed_count, count),
			      plural(t->suppressed_count, "block", "blocks"));
	}
	if (t->is_partial)
		mt_buf_adds(out, "interrupted: this report covers only a part of the data\n");
}

static int add_rows(const struct mt_report *r, const struct mt_table *t, uint32_t top,
		    struct mt_buf *out)
{
	uint32_t wide = count_wide_rows(r, t);
	uint32_t shown = top ? MT_MIN(wide, top) : wide;
	int code = 0;

	if (t->query.by == MT_BY_SITE || t->query.by == MT_BY_THREAD)
		for (uint32_t i = 0; i < shown; i++)
			add_site_row(r, t, i, out);
	else if (shown)
		code = add_label_rows(r, t, shown, out);
	add_rest(r, t, shown, wide, out);
	return code;
}

/* mmap, brk and custom heaps: their memory is not part of the malloc heap's numbers. */
static int add_other_heaps(const struct mt_report *r, struct mt_buf *out, struct mt_err *err)
{
	uint32_t count = 0;
	mt_auto(free) struct mt_heap_sum *sums = mt_report_heaps(r, &count);
	int code = sums ? 0 : -ENOMEM;

	for (uint32_t i = 0; i < count && !code; i++) {
		struct mt_table *t = NULL;
		char text[MT_UNITS_TEXT_MAX];

		if (!sums[i].heap || (!sums[i].allocs && !sums[i].live_count))
			continue;
		code = mt_report_table(r, sums[i].heap, &t, err);
		if (!code && t->row_count) {
			mt_buf_printf(out, "\n%s", mt_text_strong(r));
			mt_text_line(out, "", sums[i].name, " heap");
			mt_buf_printf(out, "%s, beside the numbers above: ", mt_text_end(r));
			mt_text_size(out, t->bytes);
			mt_buf_printf(out, " in %s %s\n", mt_units_count(t->count, text),
				      unit_noun(r, t->count));
			code = add_rows(
				r, t, r->top ? MT_MIN(r->top, (uint32_t)OTHER_HEAP_ROWS) : 0, out);
		}
		mt_table_free(t);
	}
	return code;
}

static int add_processes(const struct mt_report *r, struct mt_buf *out)
{
	mt_auto(mt_grid) struct mt_grid g = {0};
	char size[MT_UNITS_TEXT_MAX];

	if (r->profile_count < 2)
		return 0;
	mt_buf_adds(out, "\nprocesses\n");
	mt_grid_init(&g, "rrrrrrl");
	for (const char *const *h = (const char *const[]){"pid", "parent", "live", "blocks", "peak",
							  "allocations", "program", NULL};
	     *h; h++)
		mt_grid_add(&g, *h);
	for (uint32_t i = 0; i < r->profile_count; i++) {
		const struct mt_profile *p = r->profiles[i];
		struct mt_buf line = {0};

		mt_grid_addf(&g, "%" PRId32, p->pid);
		mt_grid_addf(&g, "%" PRId32, p->ppid);
		mt_grid_add(&g, mt_units_size(p->live_bytes, size));
		mt_grid_add(&g, mt_units_count(p->live_count, size));
		mt_grid_add(&g, mt_units_size(p->peak_bytes, size));
		mt_grid_add(&g, mt_units_count(p->totals.allocs, size));
		add_process_line(p, &line);
		mt_grid_add(&g, mt_buf_text(&line));
		mt_buf_done(&line);
	}
	return mt_grid_write(&g, 2, out);
}

static int add_table(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out,
		     struct mt_err *err)
{
	struct mt_table *table;
	bool is_every_heap = mt_report_by(r) == MT_BY_HEAP;
	int code = mt_report_table(r, is_every_heap ? (uint32_t)MT_HEAP_ANY : 0, &table, err);

	if (code)
		return code;
	add_verdict(r, table, out);
	add_totals(r, t, out);
	code = add_rows(r, table, r->top, out);
	mt_table_free(table);
	if (!code && !is_every_heap)
		code = add_other_heaps(r, out, err);
	return code;
}

static int add_summary(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out,
		       struct mt_err *err)
{
	struct mt_report live = *r;
	struct mt_table *table;
	int code;

	live.show = MT_SHOW_LEAKS;
	live.by = MT_BY_SITE;
	code = mt_report_table(&live, 0, &table, err);
	if (code)
		return code;
	add_verdict(&live, table, out);
	add_totals(r, t, out);
	mt_table_free(table);
	return 0;
}

/* A run without call sites: what is known stands below the sentence that says so. */
static int add_counted(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out,
		       struct mt_err *err)
{
	int code;

	if (r->show == MT_SHOW_LARGE)
		return mt_text_large(r, r->top, out);
	mt_buf_adds(out, mt_text_strong(r));
	mt_basis_add_counted_verdict(t, out);
	mt_buf_printf(out, "%s\n", mt_text_end(r));
	add_totals(r, t, out);
	code = r->show == MT_SHOW_SUMMARY ? 0 : mt_text_counted(r, t, out, err);
	return code ? code : add_processes(r, out);
}

static int add_shown(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out,
		     struct mt_err *err)
{
	bool is_table = r->show == MT_SHOW_SUMMARY || mt_show_is_table(r->show);
	int code;

	if (is_table && mt_basis_is_counted_only(r))
		return add_counted(r, t, out, err);
	if (!is_table)
		return mt_text_show(r, t, out, err);
	code = r->show == MT_SHOW_SUMMARY ? add_summary(r, t, out, err) : add_table(r, t, out, err);
	if (!code && r->show == MT_SHOW_LARGE && t->usable_allocs) {
		mt_buf_addc(out, '\n');
		code = mt_text_large(r, r->top, out);
	}
	return code ? code : add_processes(r, out);
}

/* Of many processes the same is said once. 0 or -ENOMEM. */
static int add_sentences(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out)
{
	mt_auto(mt_alike) struct mt_alike notes = {0}, caveats = {0};
	struct stack_context c = {r, out, 0};
	int code;

	mt_basis_sentences(r, t, mt_alike_add, &notes);
	mt_report_caveats(r, t, mt_alike_add, &caveats);
	code = mt_alike_each(&notes, emit_note, &c);
	return code ? code : mt_alike_each(&caveats, emit_caveat, &c);
}

int mt_report_text(const struct mt_report *r, struct mt_buf *out, struct mt_err *err)
{
	struct mt_totals t;
	int code;

	if (mt_report_missing(r))
		return mt_err_set(err, -EINVAL, "%s", mt_report_missing(r));
	mt_totals_sum(r->profiles, r->profile_count, &t);
	code = add_sentences(r, &t, out);
	if (!code && (r->show == MT_SHOW_LEAKS || r->show == MT_SHOW_SUMMARY))
		code = mt_errors_text_first(r, out);
	if (!code)
		code = add_shown(r, &t, out, err);
	return code == -ENOMEM ? mt_err_no_memory(err) : code;
}
