/* SPDX-License-Identifier: MIT */
/* Lifetime of a series, and which of its points are worth keeping. */
#include "model/series.h"

#include "base/arena.h"

void mt_series_free(struct mt_series *s)
{
	if (s)
		mt_arena_free(s->arena); /* s itself lies in it */
}

const char *mt_series_reason_name(uint32_t reason)
{
	static const char *const names[] = {
		[MT_SERIES_FIRST] = "first",     [MT_SERIES_INTERVAL] = "interval",
		[MT_SERIES_LAST] = "last",       [MT_SERIES_ASKED] = "asked",
		[MT_SERIES_SIGNAL] = "signal",   [MT_SERIES_RSS] = "rss",
		[MT_SERIES_PSS] = "pss",         [MT_SERIES_GROWTH] = "growth",
		[MT_SERIES_PROGRAM] = "program",
	};

	return reason < MT_ARRAY_LEN(names) && names[reason] ? names[reason] : "?";
}

/* ---- thinning ---- */

struct thinner {
	const struct mt_series_point *point;
	const uint32_t *size_bytes;
	uint32_t count;
	bool has_asked; /* those that were asked for are kept */
	uint32_t extreme[4];
};

static bool is_asked(const struct mt_series_point *p)
{
	return p->reason == MT_SERIES_ASKED || p->reason == MT_SERIES_SIGNAL ||
	       p->reason == MT_SERIES_PROGRAM;
}

static void find_extremes(struct thinner *t)
{
	const struct mt_series_point *p = t->point;

	for (uint32_t i = 1; i < t->count; i++) {
		if (p[i].live_bytes > p[t->extreme[0]].live_bytes)
			t->extreme[0] = i;
		if (p[i].live_bytes < p[t->extreme[1]].live_bytes)
			t->extreme[1] = i;
		if (p[i].rss_bytes == MT_SERIES_UNKNOWN)
			continue;
		if (p[t->extreme[2]].rss_bytes == MT_SERIES_UNKNOWN ||
		    p[i].rss_bytes > p[t->extreme[2]].rss_bytes)
			t->extreme[2] = i;
		if (p[i].rss_bytes < p[t->extreme[3]].rss_bytes)
			t->extreme[3] = i;
	}
}

static bool is_pinned(const struct thinner *t, uint32_t i)
{
	return !i || i == t->count - 1 || i == t->extreme[0] || i == t->extreme[1] ||
	       i == t->extreme[2] || i == t->extreme[3] || (t->has_asked && is_asked(&t->point[i]));
}

/*
 * From the newest to the oldest: a point stays when it is at least age / k from the next one kept.
 * Pinned points do not count for the distance, so that their number changes nothing else.
 */
static uint64_t choose(const struct thinner *t, uint64_t k, bool *keep)
{
	uint64_t end = t->point[t->count - 1].time_ns, last = end, sum = 0;

	for (uint32_t i = t->count; i-- > 0;) {
		uint64_t at = t->point[i].time_ns;
		bool is_far = last >= at && (last - at) >= (end - at) / k && last > at;

		keep[i] = is_far || is_pinned(t, i);
		if (is_far)
			last = at;
		sum += keep[i] ? t->size_bytes[i] : 0;
	}
	return sum;
}

uint64_t mt_series_thin(const struct mt_series_point *point, const uint32_t *size_bytes,
			uint32_t count, uint64_t target_bytes, bool *keep)
{
	enum { K_MAX = 1 << 24 };
	struct thinner t = {
		.point = point, .size_bytes = size_bytes, .count = count, .has_asked = true};
	uint64_t asked = 0, low = 1, high = K_MAX;

	if (!count)
		return 0;
	find_extremes(&t);
	for (uint32_t i = 0; i < count; i++)
		asked += is_asked(&point[i]) ? size_bytes[i] : 0;
	t.has_asked = asked <= target_bytes / 4;
	while (low < high) { /* the largest k that fits; 1 when none does */
		uint64_t k = low + (high - low + 1) / 2;

		if (choose(&t, k, keep) <= target_bytes)
			low = k;
		else
			high = k - 1;
	}
	return choose(&t, low, keep);
}

static struct mt_estimate estimate_of(const struct mt_series_part *part, uint64_t bytes,
				      uint64_t count, const struct mt_sampling *how)
{
	struct mt_estimate e = {
		.samples = part->samples,
		.bytes = (double)bytes,
		.count = (double)count,
		.seen_bytes = (double)part->seen_bytes,
		.bytes_variance = part->bytes_variance,
		.count_variance = part->count_variance,
	};
	double missed = e.count - (double)e.samples;

	mt_estimate_expect(&e, how);
	if (missed > 0 && e.count_variance / missed > e.unseen_count)
		e.unseen_count = e.count_variance / missed; /* the weight of one sample */
	return e;
}

struct mt_flow mt_series_flow(const struct mt_series_site *site,
			      const struct mt_series_sampled *sampled,
			      const struct mt_sampling *how)
{
	return (struct mt_flow){
		.live = estimate_of(&sampled->live, site->bytes, site->count, how),
		.freed = estimate_of(&sampled->freed, sampled->freed_bytes, site->frees, how),
	};
}
