/* SPDX-License-Identifier: MIT */
/* Estimates from samples; the formulas and where they come from stand in the header. */
#include "model/estimate.h"

#include <math.h>

#define NORMAL_975 1.959963984540054 /* quantile of the normal distribution */
#define LN_100 4.605170185988092
#define TAIL 0.025
#define WIDE_SHAPE 1e5 /* from here on Wilson and Hilferty's cube is exact enough */

enum {
	NORMAL_SAMPLES = 30, /* fewer samples: the exact interval */
	NORMAL_MISSED = 15,  /* fewer misses, by their weight: the same */
	NONE_FACTOR = 3,     /* no sample: exp(-3) is 5 % */
	GAMMA_STEPS = 100000,
	QUANTILE_STEPS = 200,
};

/* ---- the gamma distribution ---- */

/* x^a e^-x / Gamma(a) */
static double gamma_front(double a, double x)
{
	int sign;

	return exp(a * log(x) - x - lgamma_r(a, &sign));
}

static double gamma_series(double a, double x)
{
	double term = 1 / a, sum = term;

	for (int i = 1; i < GAMMA_STEPS && term > sum * 1e-17; i++) {
		term *= x / (a + i);
		sum += term;
	}
	return sum * gamma_front(a, x);
}

/* The upper part by Lentz's continued fraction. */
static double gamma_fraction(double a, double x)
{
	const double tiny = 1e-300;
	double b = x + 1 - a, c = 1 / tiny, d = 1 / b, h = d;

	for (int i = 1; i < GAMMA_STEPS; i++) {
		double an = -i * (i - a), step;

		b += 2;
		d = an * d + b;
		c = b + an / c;
		d = 1 / (fabs(d) < tiny ? tiny : d);
		c = fabs(c) < tiny ? tiny : c;
		step = d * c;
		h *= step;
		if (fabs(step - 1) < 1e-16)
			break;
	}
	return h * gamma_front(a, x);
}

double mt_gamma_p(double a, double x)
{
	if (x <= 0)
		return 0;
	return x < a + 1 ? gamma_series(a, x) : 1 - gamma_fraction(a, x);
}

static double normal_quantile(double q)
{
	double low = -40, high = 40;

	for (int i = 0; i < QUANTILE_STEPS && high - low > 1e-13; i++) {
		double mid = (low + high) / 2;

		if (erfc(-mid / sqrt(2)) / 2 < q)
			low = mid;
		else
			high = mid;
	}
	return (low + high) / 2;
}

/* Wilson and Hilferty 1931: the cube root of a gamma variable is nearly normal. */
static double gamma_cube(double q, double a)
{
	double t = 1 - 1 / (9 * a) + normal_quantile(q) / (3 * sqrt(a));

	return t > 0 ? a * t * t * t : 0;
}

double mt_gamma_quantile(double q, double a)
{
	double low = 0, high, x = gamma_cube(q, a);

	if (a >= WIDE_SHAPE)
		return x;
	for (high = fmax(2 * x, a + 1); mt_gamma_p(a, high) < q; high *= 2)
		;
	/* Newton, kept inside a bracket that shrinks */
	for (int i = 0; i < QUANTILE_STEPS; i++) {
		double step, front;

		if (x <= low || x >= high)
			x = (low + high) / 2;
		step = mt_gamma_p(a, x) - q;
		if (step < 0)
			low = x;
		else
			high = x;
		front = gamma_front(a, x) / x;
		if (front <= 0)
			continue;
		step /= front;
		x -= step;
		if (fabs(step) < 1e-12 * x)
			break;
	}
	return x;
}

/* ---- weights ---- */

bool mt_sampling_is_partial(const struct mt_sampling *s)
{
	return (s->kind == MT_SAMPLING_POISSON && s->interval_bytes > 1) ||
	       (s->kind == MT_SAMPLING_EVERY && s->every > 1);
}

uint64_t mt_sampling_certain_bytes(uint64_t interval_bytes)
{
	double bytes = ceil((double)interval_bytes * LN_100);

	return interval_bytes <= 1 ? 0 : bytes < 0x1p63 ? (uint64_t)bytes : UINT64_MAX;
}

double mt_sampling_probability(const struct mt_sampling *s, uint64_t size)
{
	if (!mt_sampling_is_partial(s))
		return 1;
	if (s->kind == MT_SAMPLING_EVERY)
		return 1 / (double)s->every;
	if (size >= mt_sampling_certain_bytes(s->interval_bytes))
		return 1;
	return -expm1(-(double)(size ? size : 1) / (double)s->interval_bytes);
}

void mt_estimate_expect(struct mt_estimate *e, const struct mt_sampling *s)
{
	if (!mt_sampling_is_partial(s))
		return;
	if (s->kind == MT_SAMPLING_POISSON)
		e->unseen_bytes = fmax(e->unseen_bytes, (double)s->interval_bytes);
	else
		e->unseen_count = fmax(e->unseen_count, (double)s->every);
}

void mt_estimate_add(struct mt_estimate *e, const struct mt_sampling *s, uint64_t size)
{
	double p = mt_sampling_probability(s, size), bytes = (double)size / p;

	mt_estimate_expect(e, s);
	e->bytes += bytes;
	e->count += 1 / p;
	e->seen_bytes += (double)size;
	if (p >= 1) {
		e->certain++;
		return;
	}
	e->samples++;
	e->bytes_variance += bytes * bytes * (1 - p);
	e->count_variance += (1 - p) / (p * p);
	e->unseen_bytes = fmax(e->unseen_bytes, bytes * (s->kind == MT_SAMPLING_EVERY));
	e->unseen_count = fmax(e->unseen_count, 1 / p);
}

struct mt_estimate mt_estimate_of_all(uint64_t count, uint64_t bytes)
{
	return (struct mt_estimate){.certain = count,
				    .count = (double)count,
				    .bytes = (double)bytes,
				    .seen_bytes = (double)bytes};
}

void mt_estimate_merge(struct mt_estimate *e, const struct mt_estimate *other)
{
	e->samples += other->samples;
	e->certain += other->certain;
	e->bytes += other->bytes;
	e->count += other->count;
	e->seen_bytes += other->seen_bytes;
	e->bytes_variance += other->bytes_variance;
	e->count_variance += other->count_variance;
	e->unseen_bytes = fmax(e->unseen_bytes, other->unseen_bytes);
	e->unseen_count = fmax(e->unseen_count, other->unseen_count);
	e->is_least |= other->is_least;
	e->is_most |= other->is_most;
}

static double positive(double v)
{
	return v > 0 ? v : 0;
}

struct mt_estimate mt_estimate_since(const struct mt_estimate *earlier,
				     const struct mt_estimate *later)
{
	struct mt_estimate e = *later;

	e.samples -= earlier->samples < e.samples ? earlier->samples : e.samples;
	e.certain -= earlier->certain < e.certain ? earlier->certain : e.certain;
	e.bytes = positive(e.bytes - earlier->bytes);
	e.count = positive(e.count - earlier->count);
	e.seen_bytes = positive(e.seen_bytes - earlier->seen_bytes);
	e.bytes_variance = positive(e.bytes_variance - earlier->bytes_variance);
	e.count_variance = positive(e.count_variance - earlier->count_variance);
	return e;
}

static bool varies_less(const struct mt_estimate *a, const struct mt_estimate *b)
{
	if (a->bytes_variance < b->bytes_variance || a->bytes_variance > b->bytes_variance)
		return a->bytes_variance < b->bytes_variance;
	return a->samples + a->certain < b->samples + b->certain;
}

void mt_flow_between(const struct mt_flow *earlier, const struct mt_flow *later,
		     struct mt_estimate *ret_came, struct mt_estimate *ret_went)
{
	struct mt_estimate freed = mt_estimate_since(&earlier->freed, &later->freed);
	struct mt_estimate allocated = later->live;

	if (!varies_less(&freed, &earlier->live)) {
		*ret_came = later->live;
		*ret_went = earlier->live;
		return;
	}
	mt_estimate_merge(&allocated, &freed);
	*ret_came = mt_estimate_since(&earlier->live, &allocated);
	*ret_went = freed;
}

/* ---- intervals ---- */

/* What the interval is made of; the letters are those of the header. */
struct parts {
	uint64_t n;
	double y, r, v;
	double unseen; /* what one more sample may stand for at most */
};

static struct mt_interval few(const struct parts *x)
{
	double m = x->y - x->r, w = x->v / m, q = m / x->y, u = fmax(w, x->unseen);
	double more = m + u * q, wide = x->v + u * u * q;
	double low = w * (mt_gamma_quantile(TAIL, m / w) - (1 - q));
	double high = wide / more * mt_gamma_quantile(1 - TAIL, more / wide * more);

	low = x->r + fmax(0, low); /* of numbers that no sample gives, the ends may cross */
	return (struct mt_interval){low, fmax(low, x->r + fmax(u, high))};
}

static struct mt_interval interval(const struct parts *x)
{
	double m = x->y - x->r, half = NORMAL_975 * sqrt(x->v);

	if (!x->n || !(m > 0) || !(x->v > 0)) /* the latter two: torn or damaged numbers */
		return (struct mt_interval){x->r, x->unseen > 0 ? x->r + NONE_FACTOR * x->unseen
								: INFINITY};
	if (x->n < NORMAL_SAMPLES || m * m < NORMAL_MISSED * x->v)
		return few(x);
	return (struct mt_interval){fmax(x->r, x->y - half), x->y + half};
}

/* None of what is there was left to chance. */
static bool is_counted(const struct mt_estimate *e)
{
	return !e->samples && !(e->unseen_bytes > 0) && !(e->unseen_count > 0);
}

bool mt_estimate_is_exact(const struct mt_estimate *e)
{
	return is_counted(e) && !e->is_least && !e->is_most;
}

/* The interval that the samples give, and what is known beyond it. */
static struct mt_interval widen(const struct mt_estimate *e, struct mt_interval i)
{
	return (struct mt_interval){e->is_most ? 0 : i.low, e->is_least ? INFINITY : i.high};
}

struct mt_interval mt_estimate_bytes(const struct mt_estimate *e)
{
	struct parts x = {e->samples, e->bytes, e->seen_bytes, e->bytes_variance, e->unseen_bytes};

	return widen(e, is_counted(e) ? (struct mt_interval){e->bytes, e->bytes} : interval(&x));
}

struct mt_interval mt_estimate_count(const struct mt_estimate *e)
{
	double seen = (double)e->samples + (double)e->certain;
	struct parts x = {e->samples, e->count, seen, e->count_variance, e->unseen_count};

	return widen(e, is_counted(e) ? (struct mt_interval){e->count, e->count} : interval(&x));
}

/* Square and add: each end is as far as the two ends that push it there. */
static struct mt_interval difference(double a, struct mt_interval ia, double b,
				     struct mt_interval ib)
{
	return (struct mt_interval){a - b - hypot(a - ia.low, ib.high - b),
				    a - b + hypot(ia.high - a, b - ib.low)};
}

struct mt_interval mt_estimate_growth_bytes(const struct mt_estimate *came,
					    const struct mt_estimate *went)
{
	return difference(came->bytes, mt_estimate_bytes(came), went->bytes,
			  mt_estimate_bytes(went));
}

struct mt_interval mt_estimate_growth_count(const struct mt_estimate *came,
					    const struct mt_estimate *went)
{
	return difference(came->count, mt_estimate_count(came), went->count,
			  mt_estimate_count(went));
}
