/* SPDX-License-Identifier: MIT */
/* One snapshot of a series, and a profile as it was then. */
#include "formats/mts_read.h"

#include <errno.h>
#include <string.h>

#include "base/units.h"
#include "formats/mtk_time.h"

enum how { BY_NUMBER, BY_TIME, BEFORE_LAST, THE_FIRST, THE_LAST };

struct finder {
	enum how how;
	uint64_t wanted; /* number, or ns */
	/* of the first walk */
	struct mt_series_point last, best;
	uint64_t distance;
	/* of the second */
	struct mt_mts_table table;
};

static int parse(const char *which, struct finder *f)
{
	f->how = which[0] == '-' ? BEFORE_LAST : BY_TIME;
	if (!strcmp(which, "first"))
		f->how = THE_FIRST;
	else if (!strcmp(which, "last"))
		f->how = THE_LAST;
	else if (!mt_units_parse_count(which, &f->wanted))
		f->how = BY_NUMBER;
	else
		return mt_units_parse_time(which + (which[0] == '-'), &f->wanted);
	return 0;
}

static int see_last(void *user, const struct mt_series_point *p, const struct mt_mts_table *table)
{
	struct finder *f = user;
	f->last = *p;
	return 0;
}

static uint64_t distance(const struct finder *f, const struct mt_series_point *p)
{
	uint64_t at = f->wanted, is = p->time_ns;
	if (f->how == BY_NUMBER)
		is = p->number;
	else if (f->how == BEFORE_LAST)
		at = f->last.time_ns > at ? f->last.time_ns - at : 0;
	else if (f->how != BY_TIME)
		return f->how == THE_FIRST ? p->number : f->last.number - p->number;
	return at > is ? at - is : is - at;
}

static int see_best(void *user, const struct mt_series_point *p, const struct mt_mts_table *table)
{
	struct finder *f = user;
	uint64_t d = distance(f, p);
	if (!f->best.number || d < f->distance) {
		f->best = *p;
		f->distance = d;
	}
	return 0;
}

static int take_best(void *user, const struct mt_series_point *p, const struct mt_mts_table *table)
{
	struct finder *f = user;
	int r;
	if (p->number != f->best.number)
		return 0;
	r = mt_mts_table_copy(&f->table, table);
	return r ? r : 1;
}

static int check_range(const struct finder *f, const char *path, const char *which, uint64_t end_ns,
		       struct mt_err *err)
{
	uint64_t most = f->how == BY_TIME ? MT_MAX(end_ns, f->last.time_ns) : f->last.time_ns;

	if ((f->how != BY_TIME && f->how != BEFORE_LAST) || !mt_mtk_time_is_behind(f->wanted, most))
		return 0;
	if (f->how == BY_TIME)
		return mt_err_set(err, -ERANGE,
				  "'%s' has nothing at %s: the process is known from 0 to %.3f s "
				  "after its start",
				  path, which, (double)most / 1e9);
	return mt_err_set(err, -ERANGE,
			  "'%s' has nothing at %s: its last snapshot was taken %.3f s after the "
			  "start of the process",
			  path, which, (double)most / 1e9);
}

int mt_mts_find(const char *path, const char *which, uint64_t end_ns,
		struct mt_series_point *ret_point, struct mt_mts_table *ret_table,
		struct mt_mts_header *ret_header, struct mt_err *err)
{
	struct finder f = {.how = BY_NUMBER};
	struct mt_mts_info info;
	int r;
	if (parse(which, &f))
		return mt_err_set(
			err, -EINVAL,
			"'%s' is no snapshot: give a number, a time since the start (90s, "
			"2h), one before the last snapshot (-10m), first or last",
			which);
	r = mt_mts_walk(path, false, see_last, &f, &info, err);
	if (!r)
		r = mt_mts_walk(path, false, see_best, &f, &info, err);
	if (r)
		return r;
	if (!f.best.number)
		return mt_err_set(err, -ENODATA, "'%s' holds no snapshot", path);
	if (check_range(&f, path, which, end_ns, err))
		return -ERANGE;
	if (f.how == BY_NUMBER && f.distance)
		return mt_err_set(err, -ENOENT,
				  "'%s' has no snapshot %s: they go from first to %u, with gaps "
				  "where some were thinned out; the nearest is %u",
				  path, which, f.last.number, f.best.number);
	r = mt_mts_walk(path, true, take_best, &f, &info, err);
	if (r != 1) {
		mt_mts_table_done(&f.table);
		return r < 0 ? mt_err_set_errno(err, r, "cannot read '%s'", path)
			     : mt_err_set(err, -EBADMSG, "'%s' changed while it was read", path);
	}
	*ret_point = f.best;
	*ret_table = f.table;
	*ret_header = info.header;
	return 0;
}

/* What its sites hold of samples then. */
static void apply_samples(struct mt_profile *p, const struct mt_mts_table *table)
{
	for (uint32_t i = 1; p->site_sample && i < p->site_count; i++) {
		struct mt_series_site now =
			i < table->count ? table->site[i] : (struct mt_series_site){0};
		struct mt_series_sampled sampled = mt_mts_table_sampled(table, i);
		struct mt_profile_sample *to = &p->site_sample[i];
		struct mt_flow flow;
		if (!p->site[i].regime)
			continue;
		flow = mt_series_flow(&now, &sampled, &p->regime[p->site[i].regime].sampling);
		mt_profile_mark_flow(p, i, &flow);
		*to = (struct mt_profile_sample){.lacks_blocks = to->lacks_blocks,
						 .allocs = flow.live.samples + flow.freed.samples,
						 .frees = flow.freed.samples,
						 .live = flow.live,
						 .total = flow.freed};
		mt_estimate_merge(&to->total, &flow.live);
	}
}

void mt_mts_apply(struct mt_profile *p, const struct mt_series_point *point,
		  const struct mt_mts_table *table)
{
	/* which part was counted in usable bytes is known when all was */
	if (p->stats_counts.allocs != p->totals.allocs)
		p->stats_counts = (struct mt_profile_counts){0};
	p->snapshot = point->number;
	p->duration_ns = point->time_ns;
	p->live_bytes = p->block_bytes = point->live_bytes;
	p->live_count = p->block_count = point->live_count;
	p->blocks = 0;
	p->totals.allocs = point->allocs;
	p->totals.frees = point->frees;
	p->totals.bytes = point->alloc_bytes;
	p->totals.freed_bytes = point->freed_bytes;
	if (p->stats_counts.allocs)
		p->stats_counts = p->totals;
	for (uint32_t i = 1; i < p->site_count; i++) {
		struct mt_series_site now =
			i < table->count ? table->site[i] : (struct mt_series_site){0};
		p->site[i].live_bytes = now.bytes;
		p->site[i].live_count = now.count;
		p->site[i].counts.allocs = now.allocs;
		p->site[i].counts.frees = now.frees;
	}
	apply_samples(p, table);
}
