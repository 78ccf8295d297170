/* SPDX-License-Identifier: MIT */
/* What changed between two states, in every format. */

#include "report/report.h"

#include "base/units.h"
#include "model/profile.h"
#include "report/basis.h"
#include "report/internal.h"
#include "report/json_report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>

struct sides {
	const struct mt_report *now, *before;
	struct mt_table *new_table, *old_table;
	struct mt_diff *diff;
	bool match_names;
};

static void sides_done(struct sides *s)
{
	mt_diff_free(s->diff);
	mt_table_free(s->new_table);
	mt_table_free(s->old_table);
}

static int build_table(const struct mt_report *r, bool match_names, struct mt_table **ret_table,
		       struct mt_err *err)
{
	uint32_t heap = mt_report_by(r) == MT_BY_HEAP ? (uint32_t)MT_HEAP_ANY : 0;

	return mt_report_table_of(r, heap, match_names, ret_table, err);
}

static const struct mt_row *any_row(const struct mt_diff_row *row)
{
	return row->new_row ? row->new_row : row->old_row;
}

static const struct mt_report *row_side(const struct sides *s, const struct mt_diff_row *row)
{
	return row->new_row ? s->now : s->before;
}

static uint32_t shown_rows(const struct sides *s)
{
	return s->now->top ? MT_MIN(s->now->top, s->diff->row_count) : s->diff->row_count;
}

static bool is_unchanged(const struct mt_diff_row *row)
{
	return !row->bytes && !row->count;
}

static void add_text_row(const struct sides *s, uint32_t at, struct mt_buf *out)
{
	const struct mt_diff_row *row = &s->diff->row[at];
	const struct mt_row *any = any_row(row);
	char size[MT_UNITS_TEXT_MAX], count[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "\n%" PRIu32 ". %s%s%s (%s B), %s blocks", at + 1,
		      mt_text_strong(s->now), mt_units_size_signed(row->bytes, size),
		      mt_text_end(s->now),
		      mt_units_count_signed(row->bytes, (char[MT_UNITS_TEXT_MAX]){0}),
		      mt_units_count_signed(row->count, count));
	if (row->is_estimate) {
		mt_buf_adds(out, " (95 %: ");
		mt_text_growth(out, row->bytes_interval);
		mt_buf_addc(out, ')');
	}
	if (!row->old_row)
		mt_buf_adds(out, ", new");
	else if (!row->new_row)
		mt_buf_adds(out, ", gone");
	mt_buf_printf(out, "; %s before",
		      mt_units_size(row->old_row ? row->old_row->bytes : 0, size));
	mt_buf_printf(out, ", %s now\n",
		      mt_units_size(row->new_row ? row->new_row->bytes : 0, size));
	if (any->label)
		mt_text_line(out, "    ", any->label, "\n");
	else
		mt_buf_printf(out, "    callstack_hash 0x%016" PRIx64 "\n", any->hash);
	if (!any->label && *mt_row_tag(row_side(s, row), any))
		mt_text_line(out, "    label '", mt_row_tag(row_side(s, row), any), "'\n");
	if (s->new_table->query.by == MT_BY_SITE)
		mt_text_stack(row_side(s, row), any, out);
}

static void emit_caveat(void *context, const char *sentence)
{
	mt_text_line(context, "warning: ", sentence, "\n");
}

static void emit_before(void *context, const char *sentence)
{
	mt_text_line(context, "note: before: ", sentence, "\n");
}

static void emit_now(void *context, const char *sentence)
{
	mt_text_line(context, "note: now: ", sentence, "\n");
}

static bool has_snapshot(const struct sides *s)
{
	return s->before->profiles[0]->snapshot || s->now->profiles[0]->snapshot;
}

static void add_notes(const struct sides *s, struct mt_buf *out)
{
	struct mt_totals t;

	mt_totals_sum(s->before->profiles, s->before->profile_count, &t);
	mt_basis_sentences(s->before, &t, emit_before, out);
	mt_totals_sum(s->now->profiles, s->now->profile_count, &t);
	mt_basis_sentences(s->now, &t, emit_now, out);
	if (s->new_table->is_same_process && s->diff->is_estimate &&
	    s->new_table->query.measure == MT_MEASURE_LIVE)
		mt_buf_adds(out, has_snapshot(s)
					 ? "note: of a snapshot only sums are known: blocks that "
					   "came and went since the other state may make the "
					   "ranges wider than need be, never narrower\n"
					 : "note: blocks that are live in both states do not blur "
					   "their difference: only those of one of them do\n");
}

static void add_caveats(const struct sides *s, struct mt_buf *out)
{
	struct mt_totals t;

	add_notes(s, out);
	mt_totals_sum(s->before->profiles, s->before->profile_count, &t);
	mt_report_caveats(s->before, &t, emit_caveat, out);
	mt_totals_sum(s->now->profiles, s->now->profile_count, &t);
	mt_report_caveats(s->now, &t, emit_caveat, out);
	if (s->match_names)
		mt_buf_adds(
			out,
			s->now->names
				? "the two runs are of different builds: sites are matched by "
				  "function names\n"
				: "the two runs are of different builds and there are no names to "
				  "match sites "
				  "by\n");
}

static int write_text(const struct sides *s, struct mt_buf *out)
{
	char size[MT_UNITS_TEXT_MAX], before[MT_UNITS_TEXT_MAX], now[MT_UNITS_TEXT_MAX];
	uint32_t shown = shown_rows(s), listed = 0;

	add_caveats(s, out);
	mt_buf_printf(out, "%s%s %s%s", mt_text_strong(s->now), mt_show_name(s->now->show),
		      s->diff->bytes ? mt_units_size_signed(s->diff->bytes, size) : "unchanged",
		      mt_text_end(s->now));
	if (s->diff->is_estimate) {
		mt_buf_adds(out, " (95 %: ");
		mt_text_growth(out, s->diff->bytes_interval);
		mt_buf_addc(out, ')');
	}
	mt_buf_printf(out, ": %s before, %s now; %" PRIu32 " grew, %" PRIu32 " shrank\n",
		      mt_units_size(s->old_table->bytes, before),
		      mt_units_size(s->new_table->bytes, now), s->diff->grown, s->diff->shrunk);
	for (; listed < shown && !is_unchanged(&s->diff->row[listed]); listed++)
		add_text_row(s, listed, out);
	shown = 0;
	for (uint32_t i = listed; i < s->diff->row_count; i++)
		shown += !is_unchanged(&s->diff->row[i]);
	if (shown)
		mt_buf_printf(out, "\n%" PRIu32 " more changed (--top=0 shows all)\n", shown);
	return 0;
}

static void write_json(const struct sides *s, struct mt_buf *out)
{
	struct mt_json j = {.out = out};

	mt_json_open(&j, NULL, '{');
	mt_json_string(&j, "schema", MT_JSON_SCHEMA_DIFF);
	mt_json_string(&j, "show", mt_show_name(s->now->show));
	mt_json_string(&j, "by", mt_by_name(s->new_table->query.by));
	mt_json_bool(&j, "same_build", !s->match_names);
	mt_json_u64(&j, "old_count", s->old_table->count);
	mt_json_u64(&j, "old_bytes", s->old_table->bytes);
	mt_json_u64(&j, "new_count", s->new_table->count);
	mt_json_u64(&j, "new_bytes", s->new_table->bytes);
	mt_json_i64(&j, "count", s->diff->count);
	mt_json_i64(&j, "bytes", s->diff->bytes);
	if (s->diff->is_estimate)
		mt_json_growth(&j, s->diff->bytes_interval, s->diff->count_interval);
	mt_json_open(&j, "rows", '[');
	for (uint32_t i = 0; i < shown_rows(s); i++) {
		const struct mt_diff_row *row = &s->diff->row[i];

		mt_json_open(&j, NULL, '{');
		mt_json_u64(&j, "rank", i + 1u);
		mt_json_i64(&j, "count", row->count);
		mt_json_i64(&j, "bytes", row->bytes);
		if (row->is_estimate)
			mt_json_growth(&j, row->bytes_interval, row->count_interval);
		mt_json_u64(&j, "old_count", row->old_row ? row->old_row->count : 0);
		mt_json_u64(&j, "old_bytes", row->old_row ? row->old_row->bytes : 0);
		mt_json_u64(&j, "new_count", row->new_row ? row->new_row->count : 0);
		mt_json_u64(&j, "new_bytes", row->new_row ? row->new_row->bytes : 0);
		mt_json_row_identity(&j, row_side(s, row), s->new_table->query.by, any_row(row));
		mt_json_close(&j, '}');
	}
	mt_json_close(&j, ']');
	mt_json_close(&j, '}');
}

static void write_csv(const struct sides *s, struct mt_buf *out)
{
	enum mt_by by = s->new_table->query.by;

	mt_buf_printf(out, "rank,%s,count,bytes,old_count,old_bytes,new_count,new_bytes,stack%s\n",
		      by == MT_BY_SITE ? "callstack_hash" : mt_by_name(by),
		      s->diff->is_estimate ? ",bytes_low,bytes_high" : "");
	for (uint32_t i = 0; i < shown_rows(s); i++) {
		const struct mt_diff_row *row = &s->diff->row[i];

		mt_csv_number(out, i + 1, false);
		if (any_row(row)->label)
			mt_csv_field(out, any_row(row)->label, false);
		else
			mt_buf_printf(out, "%016" PRIx64 ",", any_row(row)->hash);
		mt_buf_printf(out, "%" PRId64 ",%" PRId64 ",", row->count, row->bytes);
		mt_csv_number(out, row->old_row ? row->old_row->count : 0, false);
		mt_csv_number(out, row->old_row ? row->old_row->bytes : 0, false);
		mt_csv_number(out, row->new_row ? row->new_row->count : 0, false);
		mt_csv_number(out, row->new_row ? row->new_row->bytes : 0, false);
		mt_csv_stack(row_side(s, row), any_row(row), out, !s->diff->is_estimate);
		if (s->diff->is_estimate)
			mt_csv_growth(out, row);
	}
}

static void write_kv(const struct sides *s, struct mt_buf *out)
{
	mt_buf_printf(out, "[DIFF] old_bytes=%" PRIu64 "\n[DIFF] new_bytes=%" PRIu64 "\n",
		      s->old_table->bytes, s->new_table->bytes);
	mt_buf_printf(out, "[DIFF] bytes=%" PRId64 "\n[DIFF] count=%" PRId64 "\n", s->diff->bytes,
		      s->diff->count);
	if (s->diff->is_estimate)
		mt_buf_printf(out, "[DIFF] bytes_low=%" PRId64 "\n[DIFF] bytes_high=%" PRId64 "\n",
			      isinf(s->diff->bytes_interval.low)
				      ? INT64_MIN
				      : (int64_t)s->diff->bytes_interval.low,
			      isinf(s->diff->bytes_interval.high)
				      ? INT64_MAX
				      : (int64_t)s->diff->bytes_interval.high);
	mt_buf_printf(out, "[DIFF] grown=%" PRIu32 "\n[DIFF] shrunk=%" PRIu32 "\n", s->diff->grown,
		      s->diff->shrunk);
}

static int build(struct sides *s, struct mt_err *err)
{
	int code;

	if (s->now->profile_count && s->before->profile_count)
		s->match_names = !mt_diff_same_build(s->before->profiles[0], s->now->profiles[0]);
	code = build_table(s->before, s->match_names, &s->old_table, err);
	if (!code)
		code = build_table(s->now, s->match_names, &s->new_table, err);
	if (!code && mt_diff_build(s->old_table, s->new_table, &s->diff))
		code = mt_err_no_memory(err);
	return code;
}

int mt_report_write_diff(const struct mt_report *r, const struct mt_profile *const *old_profiles,
			 uint32_t old_count, enum mt_report_format format, struct mt_buf *out,
			 struct mt_err *err)
{
	struct mt_report before = *r, now = *r;
	struct sides s = {.now = &now, .before = &before};
	int code;

	before.profiles = old_profiles;
	before.profile_count = old_count;
	before.other = r->profiles;
	before.other_count = r->profile_count;
	now.other = old_profiles;
	now.other_count = old_count;
	if (!mt_show_is_table(r->show))
		return mt_err_set(err, -EINVAL,
				  "--show=%s cannot be compared; use leaks, live, peak, total, "
				  "temporary, large or modules",
				  mt_show_name(r->show));
	if (mt_basis_is_counted_only(&before) || mt_basis_is_counted_only(&now))
		return mt_err_set(err, -EINVAL,
				  "the %s state is of statistics mode, which knows no call sites "
				  "that could be compared; 'memtrack report --show=sizes' has its "
				  "counters, 'memtrack timeline' those of snapshots",
				  mt_basis_is_counted_only(&before) ? "old" : "new");
	code = build(&s, err);
	if (!code && format == MT_REPORT_JSON)
		write_json(&s, out);
	else if (!code && format == MT_REPORT_CSV)
		write_csv(&s, out);
	else if (!code && format == MT_REPORT_KV)
		write_kv(&s, out);
	else if (!code)
		write_text(&s, out);
	sides_done(&s);
	return code ? code : out->failed ? mt_err_no_memory(err) : 0;
}
