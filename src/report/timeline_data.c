/* SPDX-License-Identifier: MIT */
/* Time lines as JSON and CSV; docs/report-json.md is the schema and must change with this file. */

#include "report/timeline.h"

#include "report/basis.h"
#include "report/json_report.h"

#include <inttypes.h>

#define HOUR_S 3600.0

/* ---- JSON ---- */

static void add_known(struct mt_json *j, const char *name, uint64_t bytes)
{
	if (bytes == MT_SERIES_UNKNOWN)
		mt_json_null(j, name);
	else
		mt_json_u64(j, name, bytes);
}

/* since_ns: where the stretch that tells begins. */
static void add_trend(struct mt_json *j, const char *name, const struct mt_trend *t,
		      uint64_t since_ns)
{
	mt_json_open(j, name, '{');
	mt_json_string(j, "verdict", mt_trend_word(t->verdict));
	mt_json_u64(j, "snapshots", t->points);
	mt_json_u64(j, "grew", t->grew);
	mt_json_u64(j, "intervals", t->intervals);
	if (t->verdict != MT_TREND_TOO_FEW) {
		mt_json_u64(j, "since_ns", since_ns);
		mt_json_real(j, "bytes_per_hour", t->slope * HOUR_S);
		mt_json_real(j, "bytes_per_hour_low", t->slope_low * HOUR_S);
		mt_json_real(j, "bytes_per_hour_high", t->slope_high * HOUR_S);
		mt_json_string(j, "test", t->by_steps ? "sign" : "mann_kendall");
		mt_json_real(j, "z", t->z);
		mt_json_real(j, "p", t->p);
	}
	mt_json_close(j, '}');
}

static void add_point(struct mt_json *j, const struct mt_series_point *p)
{
	mt_json_open(j, NULL, '{');
	mt_json_u64(j, "number", p->number);
	mt_json_string(j, "reason", mt_series_reason_name(p->reason));
	mt_json_u64(j, "time_ns", p->time_ns);
	mt_json_u64(j, "wall_ns", p->wall_ns);
	mt_json_bool(j, "usable", p->is_usable);
	mt_json_u64(j, "live_bytes", p->live_bytes);
	mt_json_u64(j, "live_count", p->live_count);
	mt_json_u64(j, "allocs", p->allocs);
	mt_json_u64(j, "frees", p->frees);
	mt_json_u64(j, "alloc_bytes", p->alloc_bytes);
	mt_json_u64(j, "freed_bytes", p->freed_bytes);
	add_known(j, "rss_bytes", p->rss_bytes);
	add_known(j, "pss_bytes", p->pss_bytes);
	add_known(j, "anon_bytes", p->anon_bytes);
	add_known(j, "swap_bytes", p->swap_bytes);
	mt_json_close(j, '}');
}

static void add_chance(struct mt_json *j, const struct mt_timeline_site *s)
{
	if (!s->knows_chance)
		return;
	mt_json_estimate(j, &s->last_live);
	mt_json_open(j, "growth", '{');
	mt_json_growth(j, mt_estimate_growth_bytes(&s->came, &s->went),
		       mt_estimate_growth_count(&s->came, &s->went));
	mt_json_close(j, '}');
}

static void add_site(const struct mt_timeline_view *v, uint32_t at, struct mt_json *j)
{
	const struct mt_timeline_site *s = &v->t->site[at];
	const struct mt_series *series = v->s;
	struct mt_row row = mt_timeline_row(v, s);
	uint32_t first = MT_MIN(s->trend.first, series->column_count - 1);

	mt_json_open(j, NULL, '{');
	mt_json_u64(j, "rank", at + 1);
	mt_json_bool(j, "suspect", s->is_suspect);
	mt_json_row_identity(j, v->r, MT_BY_SITE, &row);
	mt_json_u64(j, "labels", s->labels);
	mt_json_u64(j, "first_bytes", s->first_bytes);
	mt_json_u64(j, "last_bytes", s->last_bytes);
	mt_json_u64(j, "first_count", s->first_count);
	mt_json_u64(j, "last_count", s->last_count);
	mt_json_u64(j, "allocs", s->allocs);
	mt_json_u64(j, "frees", s->frees);
	add_chance(j, s);
	if (s->trend.points)
		add_trend(j, "trend", &s->trend, series->point[series->column[first]].time_ns);
	if (s->block_bytes) {
		mt_json_u64(j, "block_bytes", s->block_bytes);
		mt_json_u64(j, "old_bytes", s->old_bytes);
		mt_json_u64(j, "oldest_age_ns", s->oldest_age_ns);
	}
	if (s->trend.points) {
		mt_json_open(j, "bytes", '[');
		for (uint32_t c = 0; c < series->column_count; c++)
			mt_json_u64(j, NULL, mt_timeline_bytes(v->t, series, s, c));
		mt_json_close(j, ']');
	}
	mt_json_close(j, '}');
}

void mt_timeline_json(const struct mt_timeline_view *v, struct mt_json *j)
{
	const struct mt_series *s = v->s;

	mt_json_open(j, NULL, '{');
	mt_json_u64(j, "pid", (uint64_t)v->p->pid);
	mt_json_string(j, "program", v->p->exe);
	mt_json_bool(j, "sampled", mt_profile_is_sampled(v->p));
	mt_json_u64(j, "judged_snapshots", s->judged_count);
	mt_json_u64(j, "thinned", s->thinned);
	mt_json_u64(j, "lost", s->lost);
	mt_json_u64(j, "damaged_bytes", s->damaged_bytes);
	mt_json_u64(j, "max_live_bytes", v->t->max_live_bytes);
	add_trend(j, "live", &v->t->live, s->point[v->t->live.first].time_ns);
	if (v->t->max_rss_bytes)
		add_trend(j, "rss", &v->t->rss, s->point[v->t->rss.first].time_ns);
	mt_json_open(j, "snapshots", '[');
	for (uint32_t i = 0; i < s->point_count; i++)
		add_point(j, &s->point[i]);
	mt_json_close(j, ']');
	mt_json_u64(j, "suspects", v->t->suspects);
	mt_json_u64(j, "sites_total", v->t->site_count);
	mt_json_u64(j, "sites_untested", v->t->untested);
	mt_json_open(j, "site_snapshots", '[');
	for (uint32_t c = 0; c < s->column_count; c++)
		mt_json_u64(j, NULL, s->point[s->column[c]].number);
	mt_json_close(j, ']');
	mt_json_open(j, "sites", '[');
	for (uint32_t i = 0; i < v->shown; i++)
		add_site(v, i, j);
	mt_json_close(j, ']');
	mt_json_close(j, '}');
}

/* ---- CSV ---- */

static void add_cell(struct mt_buf *out, uint64_t bytes, bool last)
{
	if (bytes == MT_SERIES_UNKNOWN)
		mt_csv_field(out, "", last);
	else
		mt_csv_number(out, bytes, last);
}

void mt_timeline_csv(const struct mt_timeline_view *v, bool with_header, struct mt_buf *out)
{
	const struct mt_series *s = v->s;

	if (with_header)
		mt_buf_adds(out, "pid,snapshot,reason,time_ns,wall_ns,live_bytes,live_count,"
				 "allocs,frees,alloc_bytes,freed_bytes,rss_bytes,pss_bytes,"
				 "anon_bytes,swap_bytes\n");
	for (uint32_t i = 0; i < s->point_count; i++) {
		const struct mt_series_point *p = &s->point[i];
		const uint64_t numbers[] = {p->time_ns, p->wall_ns, p->live_bytes,  p->live_count,
					    p->allocs,  p->frees,   p->alloc_bytes, p->freed_bytes};

		mt_csv_number(out, (uint64_t)v->p->pid, false);
		mt_csv_number(out, p->number, false);
		mt_csv_field(out, mt_series_reason_name(p->reason), false);
		for (size_t k = 0; k < MT_ARRAY_LEN(numbers); k++)
			mt_csv_number(out, numbers[k], false);
		add_cell(out, p->rss_bytes, false);
		add_cell(out, p->pss_bytes, false);
		add_cell(out, p->anon_bytes, false);
		add_cell(out, p->swap_bytes, true);
	}
}
