/* SPDX-License-Identifier: MIT */
/*
 * Ranking. The speed of growth decides; a site whose new blocks are mostly freed (it grows by a
 * backlog), or whose live blocks are all young (they are replaced), ranks behind one that keeps
 * what it takes.
 */

#include "analysis/timeline.h"

#include "base/alloc.h"
#include "base/map.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* What of its speed a site keeps in the ranking when all it allocates is freed, or all is young. */
#define WEIGHT_FREED 0.25
#define WEIGHT_YOUNG 0.5

struct builder {
	const struct mt_series *s;
	const struct mt_profile *p;
	struct mt_timeline *t;
	uint64_t *time_ns, *value; /* owned; of the columns, or of all points */
	uint32_t *row_of;          /* owned; by site of the profile: row + 1, 0: none */
};

static void builder_done(struct builder *b)
{
	free(b->time_ns);
	free(b->value);
	free(b->row_of);
	mt_timeline_free(b->t);
}
MT_AUTO_DEFINE_INPLACE(builder, struct builder, builder_done)

void mt_timeline_free(struct mt_timeline *t)
{
	if (t) {
		free(t->site);
		free(t->next);
	}
	free(t);
}

int mt_timeline_kept(const struct mt_timeline_site *s)
{
	if (!s->allocs)
		return -1;
	return s->frees >= s->allocs ? 0 : (int)((s->allocs - s->frees) * 1000.0 / s->allocs);
}

/* ---- the process ---- */

static void find_process(struct builder *b)
{
	const struct mt_series *s = b->s;
	uint32_t known = 0;

	for (uint32_t i = 0; i < s->point_count; i++) {
		b->time_ns[i] = s->point[i].time_ns;
		b->value[i] = s->point[i].live_bytes;
		b->t->max_live_bytes = MT_MAX(b->t->max_live_bytes, b->value[i]);
	}
	b->t->live = mt_trend_find(b->time_ns, b->value, s->judged_count);
	for (uint32_t i = 0; i < s->judged_count; i++) {
		if (s->point[i].rss_bytes == MT_SERIES_UNKNOWN)
			continue;
		b->time_ns[known] = s->point[i].time_ns;
		b->value[known++] = s->point[i].rss_bytes;
		b->t->max_rss_bytes = MT_MAX(b->t->max_rss_bytes, s->point[i].rss_bytes);
	}
	b->t->rss = mt_trend_find(b->time_ns, b->value, known);
	for (uint32_t i = 0, left = b->t->rss.first; i < s->judged_count; i++) {
		b->t->rss.first = i; /* the number among all points */
		if (s->point[i].rss_bytes != MT_SERIES_UNKNOWN && !left--)
			break;
	}
}

/* ---- sites ---- */

static uint64_t growth(const struct mt_timeline_site *s)
{
	return s->last_bytes > s->first_bytes ? s->last_bytes - s->first_bytes : 0;
}

static int compare_growth(const void *a, const void *b)
{
	const struct mt_timeline_site *x = a, *y = b;

	if (growth(x) != growth(y))
		return growth(x) < growth(y) ? 1 : -1;
	return x->site < y->site ? -1 : x->site > y->site;
}

static int compare_suspects(const void *a, const void *b)
{
	const struct mt_timeline_site *x = a, *y = b;

	if (x->is_suspect != y->is_suspect)
		return x->is_suspect ? -1 : 1;
	if (x->is_suspect && x->score != y->score)
		return x->score < y->score ? 1 : -1;
	return compare_growth(a, b);
}

static uint64_t minus(uint64_t a, uint64_t b)
{
	return a > b ? a - b : 0;
}

uint64_t mt_timeline_bytes(const struct mt_timeline *t, const struct mt_series *series,
			   const struct mt_timeline_site *s, uint32_t column)
{
	uint64_t sum = 0;

	for (uint32_t i = s->site; i; i = t->next[i])
		sum += series->bytes[(size_t)i * series->column_count + column];
	return sum;
}

static uint64_t growth_of(const struct mt_series *s, uint32_t site)
{
	return minus(s->last[site].bytes, s->first[site].bytes);
}

/* Links `site` in behind the first of a row; that which grew most comes first. */
static void link_site(struct builder *b, struct mt_timeline_site *row, uint32_t site)
{
	uint32_t *next = b->t->next;

	row->sites++;
	if (growth_of(b->s, site) > growth_of(b->s, row->site)) {
		next[site] = row->site;
		row->site = site;
	} else {
		next[site] = next[row->site];
		next[row->site] = site;
	}
}

static struct mt_flow flow_at(const struct builder *b, uint32_t site,
			      const struct mt_series_site *values,
			      const struct mt_series_sampled *sampled)
{
	uint32_t regime = b->p->site[site].regime;
	struct mt_flow f;

	/* a site that is not sampled has no sums of samples: all it has is seen */
	if (!regime)
		return (struct mt_flow){
			.live = mt_estimate_of_all(values[site].count, values[site].bytes)};
	f = mt_series_flow(&values[site], &sampled[site], &b->p->regime[regime].sampling);
	mt_profile_mark_flow(b->p, site, &f);
	return f;
}

static void add_chance(struct builder *b, struct mt_timeline_site *row, uint32_t site)
{
	struct mt_flow first = flow_at(b, site, b->s->first, b->s->first_sampled);
	struct mt_flow last = flow_at(b, site, b->s->last, b->s->last_sampled);
	struct mt_estimate came = last.live, went = first.live;

	if (b->p->site[site].regime) {
		mt_flow_between(&first, &last, &came, &went);
		row->knows_chance = true;
	}
	mt_estimate_merge(&row->last_live, &last.live);
	mt_estimate_merge(&row->came, &came);
	mt_estimate_merge(&row->went, &went);
}

static void add_site(struct builder *b, struct mt_timeline_site *row, uint32_t site)
{
	const struct mt_series_site *first = &b->s->first[site], *last = &b->s->last[site];

	if (row->site)
		link_site(b, row, site);
	else
		*row = (struct mt_timeline_site){.site = site, .sites = 1};
	row->first_bytes += first->bytes;
	row->last_bytes += last->bytes;
	row->first_count += first->count;
	row->last_count += last->count;
	row->allocs += minus(last->allocs, first->allocs);
	row->frees += minus(last->frees, first->frees);
	if (b->s->first_sampled)
		add_chance(b, row, site);
}

/* The row of the site's call stack, made when it is the first of it. NULL: no memory. */
static struct mt_timeline_site *row_for(struct builder *b, struct mt_map *rows, uint32_t site)
{
	const struct mt_profile_site *s = &b->p->site[site];
	uint64_t key = (uint64_t)s->node << 8 | s->call, at;

	if (mt_map_get(rows, key, &at))
		return &b->t->site[at];
	if (mt_map_set(rows, key, b->t->site_count))
		return NULL;
	return &b->t->site[b->t->site_count++];
}

static int collect_rows(struct builder *b, uint32_t end, struct mt_map *rows)
{
	for (uint32_t i = 1; i < end; i++) {
		struct mt_timeline_site *row;

		if (!b->p->site[i].call || b->p->site[i].heap || !b->s->last[i].allocs)
			continue;
		row = row_for(b, rows, i);
		if (!row)
			return -ENOMEM;
		add_site(b, row, i);
	}
	return 0;
}

static int count_labels(struct builder *b)
{
	uint32_t *seen = mt_alloc_zero(b->p->label_count + 1u, sizeof(*seen));

	if (!seen)
		return -ENOMEM;
	for (uint32_t row = 0; row < b->t->site_count; row++)
		for (uint32_t i = b->t->site[row].site; i; i = b->t->next[i]) {
			uint32_t label = MT_MIN(b->p->site[i].label, b->p->label_count);

			b->t->site[row].labels += seen[label] != row + 1;
			seen[label] = row + 1;
		}
	free(seen);
	return 0;
}

/* All call stacks of the malloc heap that had anything live at either end or in between. */
static int collect_sites(struct builder *b)
{
	uint32_t end = MT_MIN(b->s->site_count, b->p->site_count);
	struct mt_timeline *t = b->t;
	struct mt_map rows = {0};
	int code;

	t->site = mt_alloc_zero(end + 1u, sizeof(*t->site));
	t->next = mt_alloc_zero(end + 1u, sizeof(*t->next));
	if (!t->site || !t->next)
		return -ENOMEM;
	code = collect_rows(b, end, &rows);
	mt_map_done(&rows);
	if (!code)
		code = count_labels(b);
	if (!code && t->site_count)
		qsort(t->site, t->site_count, sizeof(*t->site), compare_growth);
	return code;
}

/* Ages of the live blocks of the sites that may be suspects. */
static int add_ages(struct builder *b, uint32_t rows)
{
	const struct mt_series *s = b->s;
	const struct mt_profile *p = b->p;
	uint64_t middle = s->point[0].time_ns / 2 + s->point[s->judged_count - 1].time_ns / 2;
	struct mt_profile_clock clock = p->clock;

	b->row_of = mt_alloc_zero(p->site_count + 1u, sizeof(*b->row_of));
	if (!b->row_of)
		return -ENOMEM;
	for (uint32_t i = 0; i < rows; i++)
		for (uint32_t k = b->t->site[i].site; k; k = b->t->next[k])
			b->row_of[k] = i + 1;
	for (uint64_t i = 0; i < p->blocks; i++) {
		uint32_t row = b->row_of[p->cell[p->block[i].cell].site];
		struct mt_timeline_site *site = row ? &b->t->site[row - 1] : NULL;
		uint64_t born, age;

		if (!site)
			continue;
		born = mt_profile_clock_at(&clock, p->block[i].born);
		age = minus(p->duration_ns, born);
		site->block_bytes += p->block[i].size;
		site->old_bytes += born < middle ? p->block[i].size : 0;
		site->oldest_age_ns = MT_MAX(site->oldest_age_ns, age);
	}
	return 0;
}

static double score_of(const struct mt_timeline_site *s)
{
	int kept = mt_timeline_kept(s);
	double score = s->trend.slope, old;

	if (kept >= 0)
		score *= WEIGHT_FREED + (1 - WEIGHT_FREED) * kept / 1000;
	if (s->block_bytes) { /* an even leak leaves half of its blocks in the first half */
		old = 2.0 * (double)s->old_bytes / (double)s->block_bytes;
		score *= WEIGHT_YOUNG + (1 - WEIGHT_YOUNG) * MT_MIN(old, 1.0);
	}
	return score;
}

static void test_site(struct builder *b, struct mt_timeline_site *site)
{
	const struct mt_series *s = b->s;

	for (uint32_t c = 0; c < s->column_count; c++) {
		b->time_ns[c] = s->point[s->column[c]].time_ns;
		b->value[c] = mt_timeline_bytes(b->t, s, site, c);
	}
	site->trend = mt_trend_find(b->time_ns, b->value, s->column_count);
	site->is_suspect =
		site->trend.verdict == MT_TREND_GROWS && growth(site) >= MT_TIMELINE_GROWTH_MIN;
	site->score = site->is_suspect ? score_of(site) : 0;
	b->t->suspects += site->is_suspect;
}

static int find_suspects(struct builder *b)
{
	struct mt_timeline *t = b->t;
	uint32_t tested = 0;
	int err;

	while (tested < t->site_count && tested < MT_TIMELINE_TESTED &&
	       growth(&t->site[tested]) >= MT_TIMELINE_GROWTH_MIN)
		tested++;
	for (uint32_t i = tested; i < t->site_count; i++)
		t->untested += growth(&t->site[i]) >= MT_TIMELINE_GROWTH_MIN;
	err = add_ages(b, tested);
	if (err)
		return err;
	for (uint32_t i = 0; i < tested; i++)
		test_site(b, &t->site[i]);
	if (t->site_count)
		qsort(t->site, t->site_count, sizeof(*t->site), compare_suspects);
	return 0;
}

int mt_timeline_build(const struct mt_series *series, const struct mt_profile *profile,
		      struct mt_timeline **ret_timeline)
{
	mt_auto(builder) struct builder b = {.s = series, .p = profile};
	size_t room = MT_MAX(series->point_count, series->column_count) + 1u;
	int err;

	b.t = mt_alloc_zero(1, sizeof(*b.t));
	b.time_ns = mt_alloc_zero(room, sizeof(*b.time_ns));
	b.value = mt_alloc_zero(room, sizeof(*b.value));
	if (!b.t || !b.time_ns || !b.value)
		return -ENOMEM;
	find_process(&b);
	err = collect_sites(&b);
	if (!err)
		err = find_suspects(&b);
	if (err)
		return err;
	*ret_timeline = b.t;
	b.t = NULL;
	return 0;
}
