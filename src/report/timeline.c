/* SPDX-License-Identifier: MIT */
/*
 * Time lines as text: a verdict, the process over time, then the sites that grow, each with the
 * reason in words why it is or is not a suspect.
 */

#include "report/timeline.h"

#include "analysis/callstack.h"
#include "base/alloc.h"
#include "base/units.h"
#include "report/basis.h"
#include "report/grid.h"
#include "report/json_report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#define SECOND_NS 1000000000ull
#define HOUR_S 3600.0
enum { SPARK_WIDTH = 60, TABLE_ROWS = 24 };

/* ---- the whole ---- */

static void view_done(struct mt_timeline_view *v)
{
	mt_timeline_free(v->t);
	free(v->hash);
}
MT_AUTO_DEFINE_INPLACE(view, struct mt_timeline_view, view_done)

static int make_view(const struct mt_report *r, uint32_t number, struct mt_timeline_view *v)
{
	int code;

	*v = (struct mt_timeline_view){
		.r = r, .number = number, .p = r->profiles[number], .s = r->series[number]};
	code = mt_timeline_build(v->s, v->p, &v->t);
	if (code)
		return code;
	v->hash = mt_callstack_hashes(v->p, NULL);
	v->shown = r->top ? MT_MIN(r->top, v->t->site_count) : v->t->site_count;
	return v->hash ? 0 : -ENOMEM;
}

static void begin_json(struct mt_json *j)
{
	mt_json_open(j, NULL, '{');
	mt_json_string(j, "schema", MT_JSON_SCHEMA_TIMELINE);
	mt_json_open(j, "processes", '[');
}

int mt_timeline_write(const struct mt_report *r, enum mt_report_format format, struct mt_buf *out,
		      struct mt_err *err)
{
	struct mt_json j = {.out = out};
	bool is_first = true;
	int code = 0;

	if (mt_report_missing(r))
		return mt_err_set(err, -EINVAL, "%s", mt_report_missing(r));
	if (format == MT_REPORT_KV)
		return mt_err_set(err, -EINVAL,
				  "time lines have no key=value form; use --json or --csv");
	if (format == MT_REPORT_JSON)
		begin_json(&j);
	for (uint32_t i = 0; i < r->profile_count && !code; i++) {
		mt_auto(view) struct mt_timeline_view v = {0};

		if (!r->series[i])
			continue;
		code = make_view(r, i, &v);
		if (!code && format == MT_REPORT_JSON)
			mt_timeline_json(&v, &j);
		else if (!code && format == MT_REPORT_CSV)
			mt_timeline_csv(&v, is_first, out);
		else if (!code)
			code = mt_timeline_text(&v, out);
		is_first = false;
	}
	if (format == MT_REPORT_JSON) {
		mt_json_close(&j, ']');
		mt_json_close(&j, '}');
	}
	return code || out->failed ? mt_err_no_memory(err) : 0;
}

struct mt_row mt_timeline_row(const struct mt_timeline_view *v, const struct mt_timeline_site *s)
{
	uint32_t node = mt_callstack_top(v->p, v->p->site[s->site].node);

	return (struct mt_row){
		.profile = v->number, .site = s->site, .node = node, .hash = v->hash[node]};
}

/* ---- words ---- */

static const char *plural(uint64_t count, const char *one, const char *many)
{
	return count == 1 ? one : many;
}

static uint64_t span_ns(const struct mt_series *s)
{
	return s->point[s->point_count - 1].time_ns - s->point[0].time_ns;
}

/* Rates are said in a unit that fits the time that was seen. */
static double rate_unit(const struct mt_series *s, const char **ret_name)
{
	uint64_t seconds = span_ns(s) / SECOND_NS;

	*ret_name = seconds < 300         ? "s"
		    : seconds < 3 * 3600  ? "min"
		    : seconds < 3 * 86400 ? "h"
					  : "d";
	return seconds < 300         ? 1
	       : seconds < 3 * 3600  ? 60
	       : seconds < 3 * 86400 ? HOUR_S
				     : 24 * HOUR_S;
}

static char *size_text(double bytes, char *text)
{
	const double most = 9e18;

	return mt_units_size_signed((int64_t)MT_MAX(MT_MIN(round(bytes), most), -most), text);
}

/* "+2.1 MiB/h (+2.0 MiB to +2.2 MiB)" */
static void add_rate(const struct mt_timeline_view *v, const struct mt_trend *t, struct mt_buf *out)
{
	char slope[MT_UNITS_TEXT_MAX], low[MT_UNITS_TEXT_MAX], high[MT_UNITS_TEXT_MAX];
	const char *unit;
	double scale = rate_unit(v->s, &unit);

	mt_buf_printf(out, "%s/%s (%s to %s)", size_text(t->slope * scale, slope), unit,
		      size_text(t->slope_low * scale, low), size_text(t->slope_high * scale, high));
}

static void add_since(const struct mt_timeline_view *v, uint64_t time_ns, struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%s after the start", mt_units_time(time_ns, text));
	(void)v;
}

/* time_ns: where the stretch that tells begins. */
static void add_verdict(const struct mt_timeline_view *v, const struct mt_trend *t,
			uint64_t time_ns, struct mt_buf *out)
{
	switch (t->verdict) {
	case MT_TREND_TOO_FEW:
		mt_buf_printf(out, "not enough data: %" PRIu32 " %s, %d are needed", t->points,
			      plural(t->points, "snapshot", "snapshots"), MT_TREND_POINTS_MIN);
		break;
	case MT_TREND_GROWS:
		mt_buf_adds(out, "grows ");
		add_rate(v, t, out);
		mt_buf_adds(out, t->by_steps && t->slope_low <= 0 ? " at a changing speed" : "");
		mt_buf_printf(out,
			      t->by_steps ? ", significant as hardly any is given back "
					    "(sign test, z %.1f)"
					  : ", significant (z %.1f)",
			      t->z);
		if (t->first) {
			mt_buf_adds(out, ", since ");
			add_since(v, time_ns, out);
		}
		break;
	case MT_TREND_LEVELLED:
	case MT_TREND_STEPPED:
		mt_buf_adds(out, t->verdict == MT_TREND_STEPPED
					 ? "rose in one step and stays, since "
					 : "grew and then stays, since ");
		add_since(v, time_ns, out);
		break;
	case MT_TREND_RETURNS:
		mt_buf_adds(out, "rises, but comes back to where it was");
		break;
	case MT_TREND_FALLS:
		mt_buf_adds(out, "falls ");
		add_rate(v, t, out);
		break;
	case MT_TREND_STEADY:
		/* far beyond what one test would take: the same series is looked at daily */
		mt_buf_printf(out, "no significant growth (z %.1f, growth is called from %.1f on)",
			      t->z, MT_TREND_Z);
		break;
	}
}

/* ---- lines of values ---- */

/* Where the columns' values lie in the line: the highest in each place. */
static void fill_line(const uint64_t *time_ns, const uint64_t *value, uint32_t count,
		      uint64_t *ret_line, bool *ret_has)
{
	uint64_t begin = time_ns[0], length = time_ns[count - 1] - begin;

	for (uint32_t i = 0; i < count; i++) {
		uint32_t at = length ? (uint32_t)((double)(time_ns[i] - begin) / (double)length *
						  (SPARK_WIDTH - 1e-9))
				     : 0;

		at = MT_MIN(at, (uint32_t)SPARK_WIDTH - 1);
		ret_line[at] = ret_has[at] ? MT_MAX(ret_line[at], value[i]) : value[i];
		ret_has[at] = true;
	}
}

static void add_spark(const struct mt_report *r, const uint64_t *time_ns, const uint64_t *value,
		      uint32_t count, struct mt_buf *out)
{
	static const char *const utf8[] = {"▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
	static const char *const ascii[] = {"_", ".", ",", "-", "=", "+", "*", "#"};
	uint64_t line[SPARK_WIDTH] = {0}, low = UINT64_MAX, high = 0, last = 0;
	bool has[SPARK_WIDTH] = {false};

	fill_line(time_ns, value, count, line, has);
	for (int i = 0; i < SPARK_WIDTH; i++) {
		if (!has[i])
			continue;
		low = MT_MIN(low, line[i]);
		high = MT_MAX(high, line[i]);
	}
	for (int i = 0; i < SPARK_WIDTH; i++) {
		double height;

		last = has[i] ? line[i] : last;
		height = high > low ? (double)(last - low) / (double)(high - low) : 0;
		mt_buf_adds(out, (r->spark == MT_SPARK_UTF8 ? utf8 : ascii)[(int)(height * 7.999)]);
	}
}

static void add_site_spark(const struct mt_timeline_view *v, const struct mt_timeline_site *site,
			   struct mt_buf *out)
{
	const struct mt_series *s = v->s;
	uint64_t *time_ns = mt_alloc_zero(s->column_count, sizeof(*time_ns));
	uint64_t *value = mt_alloc_zero(s->column_count, sizeof(*value));

	for (uint32_t c = 0; time_ns && value && c < s->column_count; c++) {
		time_ns[c] = s->point[s->column[c]].time_ns;
		value[c] = mt_timeline_bytes(v->t, s, site, c);
	}
	if (time_ns && value)
		add_spark(v->r, time_ns, value, s->column_count, out);
	out->failed |= !time_ns || !value;
	free(time_ns);
	free(value);
}

/* Live bytes, or RSS where it is known, of all points. */
static void add_process_spark(const struct mt_timeline_view *v, bool is_rss, struct mt_buf *out)
{
	const struct mt_series *s = v->s;
	uint64_t *time_ns = mt_alloc_zero(s->point_count, sizeof(*time_ns));
	uint64_t *value = mt_alloc_zero(s->point_count, sizeof(*value));
	uint32_t count = 0;

	for (uint32_t i = 0; time_ns && value && i < s->point_count; i++) {
		if (is_rss && s->point[i].rss_bytes == MT_SERIES_UNKNOWN)
			continue;
		time_ns[count] = s->point[i].time_ns;
		value[count++] = is_rss ? s->point[i].rss_bytes : s->point[i].live_bytes;
	}
	if (count)
		add_spark(v->r, time_ns, value, count, out);
	out->failed |= !time_ns || !value;
	free(time_ns);
	free(value);
}

/* ---- the process ---- */

static void add_cell_size(struct mt_grid *g, uint64_t bytes)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_grid_add(g, bytes == MT_SERIES_UNKNOWN ? "-" : mt_units_size(bytes, text));
}

static int add_table(const struct mt_timeline_view *v, struct mt_buf *out)
{
	mt_auto(mt_grid) struct mt_grid g = {0};
	const struct mt_series *s = v->s;
	uint32_t rows = MT_MIN(s->point_count, (uint32_t)TABLE_ROWS);
	char text[MT_UNITS_TEXT_MAX];
	int code;

	mt_grid_init(&g, "rrrrrrl");
	for (const char *const *h = (const char *const[]){"snapshot", "time", "live", "blocks",
							  "RSS", "PSS", "reason", NULL};
	     *h; h++)
		mt_grid_add(&g, *h);
	for (uint32_t i = 0; i < rows; i++) {
		uint32_t at =
			rows > 1 ? (uint32_t)((uint64_t)i * (s->point_count - 1) / (rows - 1)) : 0;
		const struct mt_series_point *p = &s->point[at];

		mt_grid_addf(&g, "%" PRIu32, p->number);
		mt_grid_add(&g, mt_units_time(p->time_ns, text));
		add_cell_size(&g, p->live_bytes);
		mt_grid_add(&g, mt_units_count(p->live_count, text));
		add_cell_size(&g, p->rss_bytes);
		add_cell_size(&g, p->pss_bytes);
		mt_grid_add(&g, mt_series_reason_name(p->reason));
	}
	mt_buf_addc(out, '\n');
	code = mt_grid_write(&g, 2, out);
	if (rows < s->point_count)
		mt_buf_printf(out, "  (%" PRIu32 " of %" PRIu32 " snapshots; --csv lists all)\n",
			      rows, s->point_count);
	return code;
}

static void add_head(const struct mt_timeline_view *v, struct mt_buf *out)
{
	const struct mt_series *s = v->s;
	char text[MT_UNITS_TEXT_MAX];

	if (s->lost)
		mt_buf_printf(out, "warning: %" PRIu64 " %s could not be stored\n", s->lost,
			      plural(s->lost, "snapshot", "snapshots"));
	if (s->damaged_bytes)
		mt_buf_printf(out,
			      "warning: %" PRIu64 " bytes at the end of the series cannot be "
			      "read; what comes before them is shown\n",
			      s->damaged_bytes);
	if (mt_profile_is_sampled(v->p))
		mt_buf_adds(out, s->first_sampled
					 ? "note: the numbers of call sites are estimates from "
					   "samples; in brackets: the ranges that hold the truth "
					   "in 95 of 100 runs\n"
					 : "note: the numbers of call sites are estimates from "
					   "samples; how sure they are the snapshots do not "
					   "tell\n");
	mt_text_line(out, mt_text_strong(v->r), mt_names_base(v->p->exe), mt_text_end(v->r));
	mt_buf_printf(out, " (pid %" PRId32 "): %" PRIu32 " %s over %s", v->p->pid, s->point_count,
		      plural(s->point_count, "snapshot", "snapshots"),
		      mt_units_time(span_ns(s), text));
	if (s->thinned)
		mt_buf_printf(out, ", %s more were thinned out", mt_units_count(s->thinned, text));
	mt_buf_addc(out, '\n');
}

/* What the process did when it ended, which is no part of the judgement. */
static void add_end(const struct mt_series *s, uint64_t live_bytes, struct mt_buf *out)
{
	enum { LITTLE = 10 };
	uint64_t end = s->point[s->point_count - 1].live_bytes;
	char text[MT_UNITS_TEXT_MAX];

	if (end < live_bytes && live_bytes - end > live_bytes / LITTLE)
		mt_buf_printf(out,
			      "; at its end the process freed %s of it, which is left out here",
			      mt_units_size(live_bytes - end, text));
}

static void add_process_line(const struct mt_timeline_view *v, bool is_rss, struct mt_buf *out)
{
	const struct mt_series *s = v->s;
	const struct mt_trend *t = is_rss ? &v->t->rss : &v->t->live;
	uint64_t first = s->point[0].live_bytes, last = s->point[s->judged_count - 1].live_bytes;
	char text[MT_UNITS_TEXT_MAX];

	if (is_rss && !v->t->max_rss_bytes)
		return;
	if (v->r->spark) {
		mt_buf_adds(out, is_rss ? "  RSS   " : "  live  ");
		add_process_spark(v, is_rss, out);
		mt_buf_printf(
			out, "  up to %s\n",
			mt_units_size(is_rss ? v->t->max_rss_bytes : v->t->max_live_bytes, text));
	}
	mt_buf_adds(out, is_rss ? "RSS: " : "live bytes: ");
	if (!is_rss) {
		mt_buf_printf(out, "%s at first, ", mt_units_size(first, text));
		mt_buf_printf(out, "%s at last, ", mt_units_size(last, text));
		mt_buf_printf(out, "%s at most; ", mt_units_size(v->t->max_live_bytes, text));
	}
	add_verdict(v, t, s->point[t->first].time_ns, out);
	if (!is_rss && s->judged_count < s->point_count)
		add_end(s, last, out);
	mt_buf_addc(out, '\n');
}

/* ---- sites ---- */

static void add_percent(struct mt_buf *out, int per_mille)
{
	mt_buf_printf(out, "%d.%d %%", per_mille / 10, per_mille % 10);
}

/* Why it is ranked as it is. */
static void add_reasons(const struct mt_timeline_view *v, const struct mt_timeline_site *s,
			struct mt_buf *out)
{
	char text[MT_UNITS_TEXT_MAX];
	int kept = mt_timeline_kept(s);

	mt_buf_printf(out, "    grew in %" PRIu32 " of %" PRIu32 " intervals", s->trend.grew,
		      s->trend.intervals);
	if (kept >= 0) {
		mt_buf_printf(out, "; of %s blocks allocated meanwhile ",
			      mt_units_count(s->allocs, text));
		add_percent(out, kept);
		mt_buf_adds(out, " were never freed");
	}
	if (s->block_bytes) {
		mt_buf_adds(out, "; ");
		add_percent(out, (int)(1000.0 * (double)s->old_bytes / (double)s->block_bytes));
		mt_buf_printf(out, " of its live bytes are from the first half, the oldest %s old",
			      mt_units_time(s->oldest_age_ns, text));
	}
	mt_buf_addc(out, '\n');
	(void)v;
}

/* Its label; of several the one that grew most. */
static void add_labels(const struct mt_timeline_view *v, const struct mt_timeline_site *s,
		       const struct mt_row *row, struct mt_buf *out)
{
	const char *label = mt_row_tag(v->r, row);

	if (s->labels > 1) {
		mt_buf_printf(out, "    under %" PRIu32 " labels together, most of it ", s->labels);
		mt_text_line(out, *label ? "under '" : "without one", label, *label ? "'\n" : "\n");
	} else if (*label) {
		mt_text_line(out, "    label '", label, "'\n");
	}
}

/* " (95 %: 200 KiB to 412 KiB, growth +180 KiB to +400 KiB)" */
static void add_chance(const struct mt_timeline_site *s, struct mt_buf *out)
{
	if (!s->knows_chance)
		return;
	mt_buf_adds(out, " (95 %: ");
	mt_text_interval(out, mt_estimate_bytes(&s->last_live), /* is_count */ false);
	mt_buf_adds(out, ", growth ");
	mt_text_growth(out, mt_estimate_growth_bytes(&s->came, &s->went));
	mt_buf_addc(out, ')');
}

static void add_site(const struct mt_timeline_view *v, uint32_t at, struct mt_buf *out)
{
	const struct mt_timeline_site *s = &v->t->site[at];
	const struct mt_series *series = v->s;
	struct mt_row row = mt_timeline_row(v, s);
	char first[MT_UNITS_TEXT_MAX], last[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "\n%" PRIu32 ". %s", at + 1,
		      s->is_suspect ? mt_text_warn(v->r) : mt_text_strong(v->r));
	mt_buf_adds(out, s->is_suspect ? "leak suspect" : "no suspect");
	mt_buf_printf(out, "%s: %s at first, %s at last", mt_text_end(v->r),
		      mt_units_size(s->first_bytes, first), mt_units_size(s->last_bytes, last));
	add_chance(s, out);
	mt_buf_adds(out, "; ");
	add_verdict(v, &s->trend,
		    series->point[series->column[MT_MIN(s->trend.first, series->column_count - 1)]]
			    .time_ns,
		    out);
	mt_buf_addc(out, '\n');
	if (v->r->spark) {
		mt_buf_adds(out, "    ");
		add_site_spark(v, s, out);
		mt_buf_addc(out, '\n');
	}
	add_reasons(v, s, out);
	mt_buf_printf(out, "    %s, callstack_hash 0x%016" PRIx64 "\n",
		      mt_words_call(v->p->site[s->site].call), row.hash);
	add_labels(v, s, &row, out);
	mt_text_stack(v->r, &row, out);
}

/* Sites that neither grew nor are suspects are not worth a line. */
static bool is_worth(const struct mt_timeline_site *s)
{
	return s->is_suspect || s->last_bytes >= s->first_bytes + MT_TIMELINE_GROWTH_MIN;
}

static uint32_t count_worth(const struct mt_timeline *t)
{
	uint32_t n = 0;

	while (n < t->site_count && is_worth(&t->site[n]))
		n++;
	return n;
}

static void add_suspect_line(const struct mt_timeline_view *v, struct mt_buf *out)
{
	uint32_t worth = count_worth(v->t), more = worth - v->t->suspects;

	if (!v->t->site_count) {
		mt_buf_adds(out, "no call sites were recorded\n");
		return;
	}
	if (v->t->live.verdict == MT_TREND_TOO_FEW)
		mt_buf_adds(out, "too few snapshots to tell leaks; ");
	else
		mt_buf_printf(out, "%s%" PRIu32 " leak %s%s; ", mt_text_strong(v->r),
			      v->t->suspects, plural(v->t->suspects, "suspect", "suspects"),
			      mt_text_end(v->r));
	mt_buf_printf(out, "%" PRIu32 " more %s at least 4 KiB more at last than at first\n", more,
		      plural(more, "site has", "sites have"));
}

int mt_timeline_text(const struct mt_timeline_view *v, struct mt_buf *out)
{
	uint32_t worth = count_worth(v->t), shown = MT_MIN(worth, v->shown);
	int code = 0;

	if (v->number)
		mt_buf_addc(out, '\n');
	add_head(v, out);
	add_process_line(v, false, out);
	add_process_line(v, true, out);
	add_suspect_line(v, out);
	if (!v->r->spark)
		code = add_table(v, out);
	for (uint32_t i = 0; i < shown; i++)
		add_site(v, i, out);
	if (shown < worth)
		mt_buf_printf(out, "\n%" PRIu32 " more %s (--top=0 shows all)\n", worth - shown,
			      plural(worth - shown, "site", "sites"));
	return code;
}
