/* SPDX-License-Identifier: MIT */
/*
 * One stretch of a series is reduced to at most MT_TREND_BINS means, tested, and where another
 * shape than a straight rise fits decidedly better (a step, a rise that ends), the part behind it
 * is tested in its place. So a cache that filled up is judged by what it does since then.
 */

#include "analysis/trend.h"

#include "core/cc.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
	BINS = MT_TREND_BINS,
	PAIRS = BINS * (BINS - 1) / 2,
	ROUNDS = 6, /* stretches that are tried, each behind the last */
	EDGE = 4,   /* bins on either side of a bend */
	HOURS = 24,
	DAYS_MIN = 3,     /* fewer tell nothing of what comes every day */
	STANDING_MIN = 6, /* values that are equal: fewer are no sign of an end */
	FEWEST = 6,       /* values that a stretch counts as at least */
	PARTS = 8,        /* of a stretch, whose means are compared */
};
#define DECIDED 18.0 /* twice a log likelihood ratio: one shape against another */
/*
 * Growth behind a bend at less than this part of the former slope has levelled off, unless it is
 * beyond doubt and as fast in its second half (at least STRAIGHT of it) as in its first.
 */
#define STILL_GROWING 0.2
#define SURE_Z (2 * MT_TREND_Z)
#define STRAIGHT 0.6
#define PART_MIN 0.1 /* of the growth, in each third of the time: less is not even */
#define ONE_WAY 0.02 /* of the way up: what may be lost again in growth that has no way back */
#define HOUR_NS 3600000000000ull
#define Z95 1.959964
#define LAST_MAX 0.98 /* of an autocorrelation */

/* A stretch, reduced. Times in seconds from its begin. */
struct stretch {
	uint32_t n;
	double t[BINS], y[BINS];
	/* what was found of it */
	double slope, slope_low, slope_high, z;
	bool by_steps;     /* z is that of the steps */
	double raw_z;      /* as if values did not hang together */
	double correction; /* variance of S with values that hang together over that without */
};

/* ---- reducing ---- */

/* What comes every day: by how much the values of an hour lie above the straight line. */
struct cycle {
	double above[HOURS];
};

static uint32_t hour_of(uint64_t ns)
{
	return (uint32_t)(ns / HOUR_NS % HOURS);
}

/* A straight line through all points: value = at + slope * seconds since the first. */
static void find_line(const uint64_t *time_ns, const uint64_t *value, uint32_t count,
		      double *ret_at, double *ret_slope)
{
	double mt = 0, my = 0, tt = 0, ty = 0;

	for (uint32_t i = 0; i < count; i++) {
		mt += (double)(time_ns[i] - time_ns[0]) * 1e-9 / count;
		my += (double)value[i] / count;
	}
	for (uint32_t i = 0; i < count; i++) {
		double t = (double)(time_ns[i] - time_ns[0]) * 1e-9 - mt;

		tt += t * t;
		ty += t * ((double)value[i] - my);
	}
	*ret_slope = tt > 0 ? ty / tt : 0;
	*ret_at = my - *ret_slope * mt;
}

/* Finds the cycle of series of days; zeros unless it explains most of what a line leaves. */
static void find_cycle(const uint64_t *time_ns, const uint64_t *value, uint32_t count,
		       struct cycle *ret)
{
	double at, slope, all = 0, left = 0;
	uint32_t points[HOURS] = {0};
	struct cycle c = {{0}};

	*ret = c;
	if (time_ns[count - 1] - time_ns[0] < DAYS_MIN * HOURS * HOUR_NS ||
	    count < DAYS_MIN * HOURS)
		return;
	find_line(time_ns, value, count, &at, &slope);
	for (int pass = 0; pass < 2; pass++) {
		for (uint32_t i = 0; i < count; i++) {
			double t = (double)(time_ns[i] - time_ns[0]) * 1e-9;
			double rest = (double)value[i] - at - slope * t;
			uint32_t h = hour_of(time_ns[i]);

			points[h] += !pass;
			c.above[h] += pass ? 0 : rest;
			all += pass ? rest * rest : 0;
			left += pass ? (rest - c.above[h]) * (rest - c.above[h]) : 0;
		}
		for (int h = 0; h < HOURS && !pass; h++)
			c.above[h] /= MT_MAX(points[h], 1u);
	}
	if (left < all / 2)
		*ret = c;
}

static void reduce(const uint64_t *time_ns, const uint64_t *value, uint32_t count,
		   struct stretch *s)
{
	uint64_t begin = time_ns[0], length = time_ns[count - 1] - begin;
	uint32_t weight[BINS] = {0};
	double t[BINS] = {0}, y[BINS] = {0};
	struct cycle cycle;

	find_cycle(time_ns, value, count, &cycle);
	s->n = 0;
	for (uint32_t i = 0; i < count; i++) {
		double place = length ? (double)(time_ns[i] - begin) / (double)length : 0;
		uint32_t b = count > BINS ? (uint32_t)(place * (BINS - 1e-9)) : i;

		b = MT_MIN(b, (uint32_t)BINS - 1);
		t[b] += (double)(time_ns[i] - begin) * 1e-9;
		y[b] += (double)value[i] - cycle.above[hour_of(time_ns[i])];
		weight[b]++;
	}
	for (uint32_t b = 0; b < BINS; b++) {
		if (!weight[b])
			continue;
		s->t[s->n] = t[b] / weight[b];
		s->y[s->n++] = y[b] / weight[b];
	}
}

/* ---- Mann and Kendall, Theil and Sen ---- */

static int compare_doubles(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Of the test's S when values are independent: ties take some of it. */
static double variance_of_s(const struct stretch *s)
{
	double sorted[BINS], n = s->n, v = n * (n - 1) * (2 * n + 5);

	memcpy(sorted, s->y, s->n * sizeof(*sorted));
	qsort(sorted, s->n, sizeof(*sorted), compare_doubles);
	for (uint32_t i = 0, k; i < s->n; i = k) {
		double ties;

		for (k = i + 1; k < s->n && sorted[k] == sorted[i]; k++)
			;
		ties = k - i;
		v -= ties * (ties - 1) * (2 * ties + 5);
	}
	return v / 18;
}

/* Ranks of what is left, minus their mean. */
static void rank(const double *rest, uint32_t n, double *ret)
{
	for (uint32_t i = 0; i < n; i++) {
		ret[i] = -(n - 1.0) / 2;
		for (uint32_t k = 0; k < n; k++)
			ret[i] += rest[k] < rest[i] ? 1 : k != i && rest[k] == rest[i] ? 0.5 : 0;
	}
}

/*
 * How much wider S scatters since neighbours hang together (Hamed and Rao), from the
 * autocorrelation of the ranks of what a shape leaves, up to its first value that is not positive.
 * In short series it comes out too low, by about (2 + 4 r) / n after a line was taken out; and
 * there are too few lags to add up, so it is at least that of a noise of which each value keeps so
 * much.
 */
static double correction_of(const double *rest, uint32_t count)
{
	double ranks[BINS], square = 0, sum = 0, n = count, first = 0;

	rank(rest, count, ranks);
	for (uint32_t i = 0; i < count; i++)
		square += ranks[i] * ranks[i];
	for (uint32_t lag = 1; lag + 2 < count && square > 0; lag++) {
		double r = 0;

		for (uint32_t i = lag; i < count; i++)
			r += ranks[i] * ranks[i - lag];
		r /= square;
		if (r <= 1 / sqrt(n) - 2 / n)
			break;
		r = MT_MIN(r + (2 + 4 * r) / n, LAST_MAX);
		first = lag == 1 ? r : first;
		sum += (n - lag) * (n - lag - 1) * (n - lag - 2) * r;
	}
	return MT_MAX(1 + 2 * sum / (n * (n - 1) * (n - 2)), (1 + first) / (1 - first));
}

/* What a line of this slope leaves; false: only rounding. */
static bool leaves(const struct stretch *s, double slope, double *ret_rest)
{
	double low = INFINITY, high = -INFINITY, all;

	for (uint32_t i = 0; i < s->n; i++) {
		ret_rest[i] = s->y[i] - slope * s->t[i];
		low = MT_MIN(low, ret_rest[i]);
		high = MT_MAX(high, ret_rest[i]);
	}
	all = fabs(slope) * (s->t[s->n - 1] - s->t[0]);
	return high - low >= all / 100;
}

/* The number that would stand at `at` if they were sorted; reorders them. */
static double select_nth(double *v, uint32_t count, uint32_t at)
{
	uint32_t low = 0, high = count - 1;

	while (low < high) {
		double pivot = v[low + (high - low) / 2];
		uint32_t i = low, k = high;

		for (;;) {
			while (v[i] < pivot)
				i++;
			while (v[k] > pivot)
				k--;
			if (i >= k)
				break;
			double other = v[i];

			v[i++] = v[k];
			v[k--] = other;
		}
		if (at <= k)
			high = k;
		else
			low = k + 1;
	}
	return v[at];
}

static void find_slope(struct stretch *s, double *slopes)
{
	double sum = 0, spread, variance = variance_of_s(s), rest[BINS];
	uint32_t pairs = 0;

	for (uint32_t i = 1; i < s->n; i++)
		for (uint32_t k = 0; k < i; k++) {
			double rise = s->y[i] - s->y[k];

			sum += (rise > 0) - (rise < 0);
			if (s->t[i] > s->t[k])
				slopes[pairs++] = rise / (s->t[i] - s->t[k]);
		}
	s->slope = s->slope_low = s->slope_high = s->z = s->raw_z = 0;
	s->correction = 1;
	if (!pairs || variance <= 0)
		return;
	s->slope = (select_nth(slopes, pairs, pairs / 2) +
		    select_nth(slopes, pairs, (pairs - 1) / 2)) /
		   2;
	if (leaves(s, s->slope, rest))
		s->correction = correction_of(rest, s->n);
	spread = sqrt(variance * s->correction);
	s->z = sum ? (sum - (sum > 0) + (sum < 0)) / spread : 0;
	s->raw_z = s->z * sqrt(s->correction);
	spread = MT_MIN(Z95 * spread, (double)pairs);
	s->slope_low = select_nth(slopes, pairs, (uint32_t)MT_MAX((pairs - spread) / 2, 0.0));
	s->slope_high =
		select_nth(slopes, pairs, (uint32_t)MT_MIN((pairs + spread) / 2, pairs - 1.0));
}

/* ---- shapes ---- */

/* Takes out of y what a straight line over x explains; returns the line's slope. */
static double take_out(const double *x, uint32_t n, double *y)
{
	double mx = 0, my = 0, xx = 0, xy = 0, slope;

	for (uint32_t i = 0; i < n; i++) {
		mx += x[i] / n;
		my += y[i] / n;
	}
	for (uint32_t i = 0; i < n; i++) {
		xx += (x[i] - mx) * (x[i] - mx);
		xy += (x[i] - mx) * (y[i] - my);
	}
	slope = xx > 0 ? xy / xx : 0;
	for (uint32_t i = 0; i < n; i++)
		y[i] -= my + slope * (x[i] - mx);
	return slope;
}

enum shape { LINE, BEND, STEP, SHAPES };

/*
 * Fits a shape: a straight line, one that goes on at another slope from a bin on, or one that jumps
 * there. Returns the squares of what it leaves, infinite for a jump downwards; *ret_change is the
 * change of slope, or the height of the jump.
 */
static double fit_shape(const struct stretch *s, enum shape shape, uint32_t bend, double *ret_rest,
			double *ret_change)
{
	double change[BINS] = {0}, sum = 0, height = 0;

	for (uint32_t i = 0; i < s->n; i++) {
		change[i] = i < bend ? 0 : shape == STEP ? 1 : s->t[i] - s->t[bend];
		ret_rest[i] = s->y[i];
	}
	take_out(s->t, s->n, ret_rest);
	if (shape != LINE) { /* what is left, over what is left of the change */
		take_out(s->t, s->n, change);
		height = take_out(change, s->n, ret_rest);
	}
	for (uint32_t i = 0; i < s->n; i++)
		sum += ret_rest[i] * ret_rest[i];
	*ret_change = height;
	return shape == STEP && height < 0 ? INFINITY : sum;
}

static double mean(const double *y, uint32_t from, uint32_t to)
{
	double sum = 0;

	for (uint32_t i = from; i < to; i++)
		sum += y[i];
	return sum / (to - from);
}

/* Where the shape bends best, and what it leaves there. */
static double best_bend(const struct stretch *s, enum shape shape, uint32_t *ret_bend)
{
	double best = INFINITY, rest[BINS], change;

	for (uint32_t bend = EDGE; bend + EDGE <= s->n; bend++) {
		double sum = fit_shape(s, shape, bend, rest, &change);

		if (sum < best) {
			best = sum;
			*ret_bend = bend;
		}
	}
	return best;
}

/*
 * The shape that fits decidedly better than a straight line, LINE when none does; *ret_bend is the
 * bin where it changes, *ret_change how. Noise that hangs together, around the best shape, counts
 * as fewer values.
 */
static enum shape find_shape(const struct stretch *s, uint32_t *ret_bend, double *ret_change)
{
	double line, rest[BINS], best, n, floor;
	enum shape shape = LINE;

	line = best = fit_shape(s, LINE, 0, rest, ret_change);
	for (enum shape k = BEND; k < SHAPES; k++) {
		uint32_t bend = 0;
		double sum = best_bend(s, k, &bend);

		if (sum < best) {
			best = sum;
			shape = k;
			*ret_bend = bend;
		}
	}
	fit_shape(s, shape, shape == LINE ? 0 : *ret_bend, rest, ret_change);
	n = s->n / correction_of(rest, s->n);
	n = MT_MAX(n, (double)FEWEST); /* what is not noise but a bent shape looks like less */
	floor = 1e-9 * line + 1e-6;    /* of exact shapes nothing would be left */
	return n * log((line + floor) / (best + floor)) < DECIDED ? LINE : shape;
}

/*
 * Whether it ends where it never was in the first half, nor (ceiling) in front of a bend, and its
 * low points rise too: what comes back is no leak, however steep it is now.
 */
static bool is_at_height(const struct stretch *s, double ceiling)
{
	double part[PARTS], high = ceiling, low = INFINITY, late = INFINITY;

	for (uint32_t i = 0; i < PARTS; i++) {
		part[i] = mean(s->y, i * s->n / PARTS, (i + 1) * s->n / PARTS);
		if (i < PARTS / 2) {
			high = MT_MAX(high, part[i]);
			low = MT_MIN(low, part[i]);
		} else {
			late = MT_MIN(late, part[i]);
		}
	}
	return part[PARTS - 1] > high && late > low;
}

/* ---- the whole ---- */

struct search {
	const uint64_t *time_ns, *value;
	uint32_t count;
	struct stretch s;
	double slopes[PAIRS];
	struct mt_trend *t;
	struct mt_trend even; /* of the whole series; its verdict counts when it is "grows" */
};

static uint32_t point_after(const struct search *q, double seconds)
{
	uint32_t i = q->t->first;
	uint64_t begin = q->time_ns[i];

	while (i < q->count && (double)(q->time_ns[i] - begin) * 1e-9 < seconds)
		i++;
	return i;
}

static void take(struct search *q)
{
	q->t->slope = q->s.slope;
	q->t->slope_low = q->s.slope_low;
	q->t->slope_high = q->s.slope_high;
	q->t->z = q->s.z;
	q->t->by_steps = q->s.by_steps;
	q->t->p = 0.5 * erfc(q->s.z / sqrt(2));
}

/* What is known from in front of a bend. */
struct past {
	enum mt_trend_verdict verdict; /* if nothing grows behind it */
	double slope, ceiling;
};

/* Slopes of a stretch's halves. */
static bool is_straight(const struct stretch *s)
{
	uint32_t half = s->n / 2;
	double y[BINS], early, late;

	memcpy(y, s->y, sizeof(y));
	early = take_out(s->t, half, y);
	late = take_out(s->t + half, s->n - half, y + half);
	return late > early * STRAIGHT;
}

/*
 * Growth with hardly any way back is no noise, however unevenly it goes (a leak with the load of a
 * server): then the steps count, not the straight line. z of the sign test; 0: not so.
 */
static double one_way_z(const struct stretch *s)
{
	double up = 0, down = 0, ups = 0, downs = 0;

	for (uint32_t i = 1; i < s->n; i++) {
		double step = s->y[i] - s->y[i - 1];

		up += MT_MAX(step, 0.0);
		down -= MT_MIN(step, 0.0);
		ups += step > 0;
		downs += step < 0;
	}
	return ups && down < up * ONE_WAY ? (ups - downs) / sqrt(ups + downs) : 0;
}

/* Behind a bend or a step: no more than the end of what was before. */
static bool is_tail(const struct stretch *s, const struct past *p)
{
	if (p->verdict == MT_TREND_STEADY || s->slope >= p->slope * STILL_GROWING)
		return false;
	return s->z < SURE_Z || !is_straight(s);
}

static enum mt_trend_verdict judge(const struct stretch *s, const struct past *p)
{
	if (s->z < MT_TREND_Z)
		return s->z <= -MT_TREND_Z && p->verdict == MT_TREND_STEADY ? MT_TREND_FALLS
									    : p->verdict;
	if (is_tail(s, p))
		return p->verdict;
	return is_at_height(s, p->ceiling) ? MT_TREND_GROWS : MT_TREND_RETURNS;
}

static void pass_bend(const struct stretch *s, enum shape shape, uint32_t bend, double change,
		      struct past *p)
{
	double y[BINS], slope;

	for (uint32_t i = 0; i < bend; i++)
		p->ceiling = MT_MAX(p->ceiling, s->y[i]);
	if (shape == BEND && change > 0)
		return; /* it begins there, or becomes faster */
	memcpy(y, s->y, bend * sizeof(*y));
	slope = take_out(s->t, bend, y);
	p->slope = MT_MAX(p->slope, slope);
	p->verdict = shape == STEP ? MT_TREND_STEPPED : MT_TREND_LEVELLED;
}

/*
 * The bin from which on the value has not changed at all, when that is longer than any time that it
 * stood still before (a leak may wait for its next block, or for the morning); 0: not so.
 */
static uint32_t standing_since(const struct stretch *s)
{
	uint32_t since = 0, longest = 0;

	for (uint32_t i = 1; i < s->n; i++) {
		if (s->y[i] == s->y[i - 1])
			continue;
		longest = MT_MAX(longest, i - since);
		since = i;
	}
	return s->n - since > MT_MAX(2 * longest, (uint32_t)STANDING_MIN) ? since : 0;
}

/* Whether it goes on behind a bend that has too few points behind it for a judgement of its own. */
static bool goes_on(const struct stretch *s, uint32_t bend)
{
	double y[BINS], before, behind;

	memcpy(y, s->y, sizeof(y));
	before = take_out(s->t, bend, y);
	behind = take_out(s->t + bend, s->n - bend, y + bend);
	if (s->y[s->n - 1] == s->y[s->n - 2] && !standing_since(s))
		return true; /* it stood still that long before, and went on */
	return behind > MT_MAX(before, 0.0) * STILL_GROWING && behind > 0;
}

/* Whether each third of the time brought its part of the growth. */
static bool is_even(const struct stretch *s)
{
	double begin = s->t[0], third = (s->t[s->n - 1] - begin) / 3,
	       all = s->y[s->n - 1] - s->y[0];
	double at = s->y[0];

	for (uint32_t i = 1, part = 1; i < s->n; i++) {
		if (s->t[i] < begin + part * third && i < s->n - 1)
			continue;
		if (s->y[i] - at < all * PART_MIN)
			return false;
		at = s->y[i];
		part++;
	}
	return all > 0;
}

/* The last stretch: nothing comes behind it. */
static void settle(struct search *q, const struct past *past)
{
	uint32_t since;

	q->t->verdict = judge(&q->s, past);
	since = q->t->verdict == MT_TREND_GROWS ? standing_since(&q->s) : 0;
	if (!since)
		return;
	q->t->verdict = MT_TREND_LEVELLED;
	q->t->first = point_after(q, q->s.t[since]);
	q->t->slope = q->t->slope_low = q->t->slope_high = q->t->z = 0;
	q->t->by_steps = false;
	q->t->p = 0.5;
}

/* Growth that went on all the time is that, whatever is found of its shape. */
static void settle_even(struct search *q)
{
	const struct past none = {MT_TREND_STEADY, 0, -INFINITY};
	const struct mt_trend so_far = *q->t;

	settle(q, &none);
	q->even = *q->t;
	*q->t = so_far;
}

static void search(struct search *q)
{
	struct past past = {MT_TREND_STEADY, 0, -INFINITY};

	for (int round = 0;; round++) {
		double change = 0, one_way;
		uint32_t bend = 0, left = q->count - q->t->first, next;
		enum shape shape = LINE;
		bool is_short;

		reduce(q->time_ns + q->t->first, q->value + q->t->first, left, &q->s);
		find_slope(&q->s, q->slopes);
		one_way = one_way_z(&q->s);
		q->s.by_steps = one_way > MT_MAX(q->s.z, 0.0);
		if (q->s.by_steps)
			q->s.z = one_way;
		take(q);
		if (!round && one_way >= MT_TREND_Z && is_even(&q->s))
			settle_even(q);
		if (round < ROUNDS && q->s.raw_z >= MT_TREND_Z)
			shape = find_shape(&q->s, &bend, &change);
		if (shape == LINE) {
			settle(q, &past);
			return;
		}
		next = point_after(q, q->s.t[bend]);
		is_short = q->count - next < MT_TREND_POINTS_MIN || next == q->t->first;
		if (is_short && goes_on(&q->s, bend)) {
			settle(q, &past);
			return;
		}
		pass_bend(&q->s, shape, bend, change, &past);
		q->t->verdict = past.verdict;
		if (is_short)
			return;
		q->t->first = next;
	}
}

struct mt_trend mt_trend_find(const uint64_t *time_ns, const uint64_t *value, uint32_t count)
{
	struct mt_trend t = {.verdict = MT_TREND_TOO_FEW, .points = count, .p = 1};
	struct search q = {.time_ns = time_ns, .value = value, .count = count, .t = &t};

	for (uint32_t i = 1; i < count; i++)
		t.grew += value[i] > value[i - 1];
	t.intervals = count ? count - 1 : 0;
	if (count >= MT_TREND_POINTS_MIN && time_ns[count - 1] > time_ns[0])
		search(&q);
	return t.verdict != MT_TREND_GROWS && q.even.verdict == MT_TREND_GROWS ? q.even : t;
}

const char *mt_trend_word(enum mt_trend_verdict verdict)
{
	static const char *const words[] = {
		[MT_TREND_TOO_FEW] = "too_few", [MT_TREND_STEADY] = "steady",
		[MT_TREND_GROWS] = "grows",     [MT_TREND_LEVELLED] = "levelled",
		[MT_TREND_STEPPED] = "stepped", [MT_TREND_RETURNS] = "returns",
		[MT_TREND_FALLS] = "falls",
	};

	return words[verdict];
}
