/* SPDX-License-Identifier: MIT */
/*
 * Estimates against the truth: by exact enumeration where that is possible, else by the process
 * that the tracker runs, with a thousand seeds. All seeds are fixed.
 */
#include "model/estimate.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

enum { SEEDS = 1000, RUNS_MAX = 32, THREADS_MAX = 4 };

/* ---- the process ---- */

/* Uniform in (0, 1], 53 bits: xorshift64* over a mixed seed. */
static uint64_t mix(uint64_t x)
{
	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

static double uniform(uint64_t *state)
{
	*state ^= *state >> 12;
	*state ^= *state << 25;
	*state ^= *state >> 27;
	return (double)((*state * 0x2545f4914f6cdd1du >> 11) + 1) * 0x1p-53;
}

static uint64_t draw(uint64_t *state, uint64_t interval)
{
	return (uint64_t)ceil(-(double)interval * log(uniform(state)));
}

/* `count` blocks of one size, one after the other. */
struct run {
	uint64_t size, count;
};

/* What a program does: its runs in turn, `rounds` times, the rounds dealt out to the threads. */
struct program {
	const char *name;
	uint64_t interval;
	uint32_t threads, rounds;
	struct run run[RUNS_MAX];
	bool frees_half; /* every second block of a run is freed again */
};

/* Which rule says what is recorded, and with which weight. */
enum rule {
	OURS, /* Horvitz-Thompson; 99 % rule */
	HEAPPROFD_OLD /* points times T; size >= T always recorded */,
	HEAPPROFD_NEW, /* points times T; 99 % rule */
};

struct outcome {
	struct mt_estimate e; /* OURS */
	double bytes;         /* by the rule */
	uint64_t records;
};

static uint64_t always_from(enum rule rule, uint64_t interval)
{
	return rule == HEAPPROFD_OLD ? interval : mt_sampling_certain_bytes(interval);
}

static void record(struct outcome *o, const struct mt_sampling *s, enum rule rule, uint64_t size,
		   uint64_t points)
{
	o->records++;
	if (rule == OURS) {
		mt_estimate_add(&o->e, s, size);
		o->bytes = o->e.bytes;
	} else if (size >= always_from(rule, s->interval_bytes)) {
		o->bytes += (double)size;
	} else {
		o->bytes += (double)points * (double)s->interval_bytes;
	}
}

/* A run with a thread's countdown. Blocks below it pass without a look, as many as fit. */
static void play_run(const struct program *p, enum rule rule, const struct run *run, uint64_t *left,
		     uint64_t *state, struct outcome *o)
{
	struct mt_sampling s = {MT_SAMPLING_POISSON, p->interval, 0};
	uint64_t points;

	for (uint64_t i = 0; i < run->count; i++) {
		bool is_kept = !p->frees_half || i % 2;
		uint64_t pass =
			run->size >= always_from(rule, p->interval) ? 0 : (*left - 1) / run->size;

		if (run->size >= always_from(rule, p->interval)) {
			if (is_kept)
				record(o, &s, rule, run->size, 0);
			continue; /* the countdown is left as it is */
		}
		if (pass >= run->count - i) {
			*left -= (run->count - i) * run->size;
			return;
		}
		i += pass;
		*left -= pass * run->size;
		is_kept = !p->frees_half || i % 2;
		uint64_t rest = run->size - *left;
		for (points = 1; (*left = draw(state, p->interval)) <= rest && rule != OURS;
		     points++)
			rest -= *left;
		if (rule != OURS)
			*left -= rest;
		if (is_kept)
			record(o, &s, rule, run->size, points);
	}
}

static struct outcome play(const struct program *p, enum rule rule, uint64_t seed)
{
	struct mt_sampling s = {MT_SAMPLING_POISSON, p->interval, 0};
	uint64_t state[THREADS_MAX], left[THREADS_MAX];
	struct outcome o = {0};

	mt_estimate_expect(&o.e, &s);
	for (uint32_t t = 0; t < p->threads; t++) {
		state[t] = mix(seed * THREADS_MAX + t + 1) | 1;
		left[t] = draw(&state[t], p->interval);
	}
	for (uint32_t i = 0; i < p->rounds; i++)
		for (uint32_t k = 0; k < RUNS_MAX && p->run[k].count; k++)
			play_run(p, rule, &p->run[k], &left[i % p->threads], &state[i % p->threads],
				 &o);
	return o;
}

static double kept(const struct program *p, const struct run *run)
{
	return (double)(p->frees_half ? run->count / 2 : run->count) * p->rounds;
}

/* What there is to estimate: bytes, blocks, and the variance of our estimates of both. */
struct truth {
	double bytes, count, bytes_variance, count_variance;
};

static struct truth know(const struct program *p)
{
	struct mt_sampling s = {MT_SAMPLING_POISSON, p->interval, 0};
	struct truth t = {0};

	for (uint32_t k = 0; k < RUNS_MAX && p->run[k].count; k++) {
		double size = (double)p->run[k].size, n = kept(p, &p->run[k]);
		double prob = mt_sampling_probability(&s, p->run[k].size);

		t.bytes += n * size;
		t.count += n;
		t.bytes_variance += n * size * size * (1 - prob) / prob;
		t.count_variance += n * (1 - prob) / prob;
	}
	return t;
}

/* ---- the mixes ---- */

#define K *1024ull
#define M *1048576ull

static const struct program programs[] = {
	{"8 B only", 512 K, 1, 64, {{8, 1 M}}, false},
	{"8 B only, few samples", 512 K, 1, 1, {{8, 256 K}}, false},
	{"8 B only, some samples", 512 K, 4, 32, {{8, 32 K}}, false},
	{"every power of two, 4 MiB of each",
	 512 K,
	 4,
	 8,
	 {{8, 64 K},  {16, 32 K}, {32, 16 K}, {64, 8 K},  {128, 4 K}, {256, 2 K},
	  {512, 1 K}, {1 K, 512}, {2 K, 256}, {4 K, 128}, {8 K, 64},  {16 K, 32},
	  {32 K, 16}, {64 K, 8},  {128 K, 4}, {256 K, 2}, {512 K, 1}, {1 M, 1},
	  {2 M, 1},   {4 M, 1},   {16 M, 1},  {64 M, 1}},
	 false},
	{"the same at 4 KiB",
	 4 K,
	 2,
	 2,
	 {{8, 64 K}, {64, 8 K}, {1 K, 512}, {4 K, 128}, {8 K, 64}, {16 K, 32}, {64 M, 1}},
	 false},
	{"odd sizes",
	 64 K,
	 3,
	 12,
	 {{24, 9999},
	  {40, 2500},
	  {72, 999},
	  {333, 700},
	  {1000, 300},
	  {5000, 60},
	  {33333, 11},
	  {70001, 7},
	  {150000, 3},
	  {262145, 2},
	  {299999, 2},
	  {1000003, 1}},
	 false},
	{"around the interval",
	 512 K,
	 2,
	 40,
	 {{400 K, 2}, {512 K, 2}, {700 K, 2}, {1 M, 1}, {1536 K, 1}, {2 M, 1}},
	 false},
	{"small beside large", 512 K, 2, 25, {{16, 40000}, {300 K, 4}, {8 M, 1}}, false},
	{"three samples", 512 K, 1, 1, {{4 K, 400}}, false},
	{"ten samples", 512 K, 2, 10, {{1 K, 300}, {100, 2200}}, false},
	{"thirty samples", 512 K, 2, 10, {{1 K, 1000}, {100, 5000}}, false},
	{"half of it freed", 64 K, 2, 20, {{48, 20000}, {2 K, 600}, {100 K, 8}}, true},
};

static bool holds(struct mt_interval i, double truth)
{
	return i.low <= truth * (1 + 1e-12) && truth <= i.high * (1 + 1e-12);
}

struct trial {
	double bytes, count, variance, samples; /* means */
	double covered;
};

static struct trial try_seeds(const struct program *p, const struct truth *t)
{
	struct trial r = {0};

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct outcome o = play(p, OURS, seed);

		r.bytes += o.e.bytes / SEEDS;
		r.count += o.e.count / SEEDS;
		r.variance += o.e.bytes_variance / SEEDS;
		r.samples += (double)o.e.samples / SEEDS;
		r.covered += holds(mt_estimate_bytes(&o.e), t->bytes) / (double)SEEDS;
	}
	return r;
}

static void estimates_of_every_mix_are_right_in_the_mean_and_their_intervals_hold(void **unused)
{
	for (size_t i = 0; i < sizeof(programs) / sizeof(*programs); i++) {
		const struct program *p = &programs[i];
		struct truth t = know(p);
		struct trial r = try_seeds(p, &t);
		double far = fabs(r.bytes - t.bytes) / sqrt(t.bytes_variance / SEEDS);
		double count_far = fabs(r.count - t.count) / sqrt(t.count_variance / SEEDS);

		print_message(
			"%-34s n %6.1f  bytes off %.2f sigma, blocks off %.2f, covered %.3f\n",
			p->name, r.samples, far, count_far, r.covered);
		assert_true(far <= 3);
		assert_true(count_far <= 3);
		assert_true(fabs(r.variance / t.bytes_variance - 1) < 0.1);
		assert_true(r.covered >= 0.93);
		assert_true(r.samples < 100 || r.covered <= 0.97);
	}
}

/* ---- intervals, exactly ---- */

/* Probability that the interval holds the truth: `count` equal blocks, summed over all outcomes. */
static double exact_coverage(const struct mt_sampling *s, uint64_t size, uint64_t count)
{
	double p = mt_sampling_probability(s, size), mean = (double)count * p;
	double reach = 12 * sqrt(mean) + 12, sum = 0;
	struct mt_estimate e = {0}, one = {0};

	mt_estimate_expect(&e, s);
	mt_estimate_add(&one, s, size);
	for (uint64_t n = 0; n <= count && (double)n <= mean + reach; n++) {
		double rest = (double)(count - n), log_p;

		if (n)
			mt_estimate_merge(&e, &one);
		if ((double)n < mean - reach)
			continue;
		log_p = lgamma((double)count + 1) - lgamma((double)n + 1) - lgamma(rest + 1) +
			(double)n * log(p) + rest * log1p(-p);
		if (holds(mt_estimate_bytes(&e), (double)count * (double)size))
			sum += exp(log_p);
	}
	return sum;
}

static void intervals_of_equal_blocks_hold_for_every_size_and_number(void **unused)
{
	static const double shares[] = {0.0001, 0.01, 0.1, 0.3, 0.5, 1,   1.5,
					2,      2.5,  3,   3.5, 4,   4.3, 4.6};
	static const double means[] = {0.5, 1,  2,  3,  3.2, 4,  5,  7,  10, 15,  20,  25,  28, 30,
				       32,  35, 40, 45, 50,  60, 80, 90, 99, 120, 150, 200, 300};
	struct mt_sampling s = {MT_SAMPLING_POISSON, 100000, 0};
	double worst = 1, widest = 0;

	for (size_t i = 0; i < sizeof(shares) / sizeof(*shares); i++)
		for (size_t k = 0; k < sizeof(means) / sizeof(*means); k++) {
			uint64_t size = (uint64_t)(shares[i] * 100000);
			double p = mt_sampling_probability(&s, size);
			uint64_t count = (uint64_t)fmax(1, round(means[k] / p));
			double covered = exact_coverage(&s, size, count);

			worst = fmin(worst, covered);
			/* with fewer misses it is the exact one, which is wider */
			if (means[k] >= 100 && means[k] * (1 - p) >= 30)
				widest = fmax(widest, covered);
		}
	print_message("covered at least %.4f; from 100 samples on at most %.4f\n", worst, widest);
	assert_true(worst >= 0.93);
	assert_true(widest > 0.93 && widest <= 0.97);
}

static void assert_near(double value, double expected, double relative)
{
	if (!(fabs(value - expected) <= relative * fabs(expected)))
		fail_msg("%.15g is not near %.15g", value, expected);
}

static void quantiles_are_those_of_the_tables(void **unused)
{
	/* chi-square, from printed tables */
	static const struct {
		double q, degrees, value;
	} table[] = {
		{0.025, 1, 0.000982069117}, {0.975, 1, 5.02388618},    {0.025, 2, 0.0506356160},
		{0.975, 4, 11.1432867819},  {0.025, 20, 9.5907773923}, {0.975, 60, 83.2976748772},
		{0.95, 10, 18.3070380533},  {0.05, 100, 77.9294652},   {0.5, 2, 1.3862943611},
	};
	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++)
		assert_near(2 * mt_gamma_quantile(table[i].q, table[i].degrees / 2), table[i].value,
			    1e-8);
}

static void quantile_and_distribution_are_inverse_everywhere(void **unused)
{
	for (double a = 0.02; a < 3e5; a *= 1.7)
		for (double q = 0.001; q < 1; q += 0.037) {
			double x = mt_gamma_quantile(q, a);

			if (x > 1e-50)
				assert_near(mt_gamma_p(a, x), q, a < 1e5 ? 1e-8 : 1e-5);
		}
	assert_true(mt_gamma_p(3, 0) == 0);
}

static void few_samples_have_the_exact_poisson_interval(void **unused)
{
	/* Garwood's limits of a Poisson mean for 1, 3, 10 and 20 events */
	static const struct {
		uint64_t n;
		double low, high;
	} table[] = {
		{1, 0.0253178, 5.571643},
		{3, 0.6186721, 8.767273},
		{10, 4.795389, 18.39036},
		{20, 12.21652, 30.88838},
	};
	struct mt_sampling s = {MT_SAMPLING_POISSON, 1ull << 40, 0};

	for (size_t i = 0; i < sizeof(table) / sizeof(*table); i++) {
		struct mt_estimate e = {0};

		for (uint64_t k = 0; k < table[i].n; k++)
			mt_estimate_add(&e, &s, 16);
		assert_near(mt_estimate_bytes(&e).low, table[i].low * 0x1p40, 1e-5);
		assert_near(mt_estimate_bytes(&e).high, table[i].high * 0x1p40, 1e-5);
		assert_near(mt_estimate_count(&e).high, table[i].high * 0x1p36, 1e-5);
	}
}

static void no_sample_says_below_three_intervals(void **unused)
{
	struct mt_sampling s = {MT_SAMPLING_POISSON, 4096, 0}, every = {MT_SAMPLING_EVERY, 0, 100};
	struct mt_estimate e = {0}, large = {0}, counted = {0};

	mt_estimate_expect(&e, &s);
	assert_false(mt_estimate_is_exact(&e));
	assert_true(mt_estimate_bytes(&e).low == 0);
	assert_true(mt_estimate_bytes(&e).high == 3 * 4096);
	assert_true(isinf(mt_estimate_count(&e).high)); /* however small they were */
	mt_estimate_add(&large, &s, 1000000);           /* certain: says nothing of the others */
	assert_true(mt_estimate_bytes(&large).low == 1000000);
	assert_true(mt_estimate_bytes(&large).high == 1000000 + 3 * 4096);
	mt_estimate_expect(&counted, &every);
	assert_true(isinf(mt_estimate_bytes(&counted).high));
	assert_true(mt_estimate_count(&counted).high == 300);
}

static void many_samples_have_the_normal_interval(void **unused)
{
	struct mt_sampling s = {MT_SAMPLING_POISSON, 1ull << 40, 0};
	struct mt_estimate e = {0};

	for (int i = 0; i < 400; i++)
		mt_estimate_add(&e, &s, 16);
	assert_near(mt_estimate_bytes(&e).low, (400 - 1.959964 * 20) * 0x1p40, 1e-6);
	assert_near(mt_estimate_bytes(&e).high, (400 + 1.959964 * 20) * 0x1p40, 1e-6);
}

/* ---- weights ---- */

static void probability_is_that_of_a_point_in_the_block(void **unused)
{
	struct mt_sampling s = {MT_SAMPLING_POISSON, 524288, 0};
	struct mt_sampling one = {MT_SAMPLING_POISSON, 1, 0}, all = {0};
	struct mt_sampling every = {MT_SAMPLING_EVERY, 0, 50};

	assert_near(mt_sampling_probability(&s, 8), 1.52586727e-5, 1e-8);
	assert_near(mt_sampling_probability(&s, 0), mt_sampling_probability(&s, 1), 0);
	assert_near(mt_sampling_probability(&s, 524288), 0.632120558828558, 1e-12);
	assert_int_equal(mt_sampling_certain_bytes(524288), 2414436);
	assert_true(mt_sampling_probability(&s, 2414435) < 1);
	assert_true(mt_sampling_probability(&s, 2414435) > 0.9899999);
	assert_true(mt_sampling_probability(&s, 2414436) == 1);
	assert_true(mt_sampling_probability(&one, 1) == 1);
	assert_true(mt_sampling_probability(&all, 1) == 1);
	assert_true(mt_sampling_probability(&every, 1) == 0.02);
	assert_true(mt_sampling_probability(&every, 1 << 30) == 0.02);
	s.interval_bytes = UINT64_MAX;
	assert_int_equal(mt_sampling_certain_bytes(UINT64_MAX), UINT64_MAX);
	assert_near(mt_sampling_probability(&s, 1ull << 40), 0x1p-24, 1e-6);
}

static void a_sample_brings_size_over_probability(void **unused)
{
	struct mt_sampling s = {MT_SAMPLING_POISSON, 1000, 0};
	struct mt_estimate e = {0};
	double p = 1 - exp(-0.7);

	mt_estimate_add(&e, &s, 700);
	assert_near(e.bytes, 700 / p, 1e-12);
	assert_near(e.count, 1 / p, 1e-12);
	assert_near(e.bytes_variance, 700 / p * 700 / p * (1 - p), 1e-12);
	assert_near(e.count_variance, (1 - p) / p / p, 1e-12);
	mt_estimate_add(&e, &s, 1 << 20);
	assert_near(e.bytes, 700 / p + (1 << 20), 1e-12);
	assert_near(e.bytes_variance, 700 / p * 700 / p * (1 - p), 1e-12);
	assert_int_equal(e.samples, 1);
	assert_int_equal(e.certain, 1);
	assert_true(e.seen_bytes == 700 + (1 << 20));
}

static void a_sum_of_sums_is_the_sum_of_all(void **unused)
{
	struct mt_sampling s = {MT_SAMPLING_POISSON, 1000, 0}, t = {MT_SAMPLING_EVERY, 0, 7};
	struct mt_estimate all = {0}, a = {0}, b = {0};

	for (uint64_t i = 1; i < 40; i++) {
		const struct mt_sampling *how = i % 3 ? &s : &t;

		mt_estimate_add(&all, how, i * 200);
		mt_estimate_add(i % 2 ? &a : &b, how, i * 200);
	}
	mt_estimate_merge(&a, &b);
	assert_int_equal(a.samples, all.samples);
	assert_int_equal(a.certain, all.certain);
	assert_near(mt_estimate_bytes(&a).low, mt_estimate_bytes(&all).low, 1e-12);
	assert_near(mt_estimate_bytes(&a).high, mt_estimate_bytes(&all).high, 1e-12);
	assert_near(mt_estimate_count(&a).high, mt_estimate_count(&all).high, 1e-12);
}

static void everything_recorded_is_exact(void **unused)
{
	struct mt_sampling s = {0};
	struct mt_estimate e = {0};

	assert_true(mt_estimate_is_exact(&e));
	mt_estimate_expect(&e, &s);
	mt_estimate_add(&e, &s, 123);
	assert_true(mt_estimate_is_exact(&e));
	assert_true(mt_estimate_bytes(&e).low == 123 && mt_estimate_bytes(&e).high == 123);
	assert_true(mt_estimate_count(&e).low == 1 && mt_estimate_count(&e).high == 1);
}

static void torn_numbers_give_no_nonsense(void **unused)
{
	struct mt_estimate e = {.samples = 50, .bytes = 10, .seen_bytes = 20, .unseen_bytes = 5};

	assert_true(mt_estimate_bytes(&e).low == 20 && mt_estimate_bytes(&e).high == 35);
	e.bytes_variance = NAN;
	e.bytes = 100;
	assert_true(mt_estimate_bytes(&e).low == 20 && mt_estimate_bytes(&e).high == 35);
	/* so small a variance that rounding is larger */
	e = (struct mt_estimate){.samples = 1,
				 .bytes = 7.1979195375614673e+19,
				 .bytes_variance = 7.792,
				 .unseen_bytes = 16};
	assert_true(mt_estimate_bytes(&e).low <= mt_estimate_bytes(&e).high);
	e = (struct mt_estimate){.samples = 3, .bytes = 0x1p64, .bytes_variance = 0x1p128};
	assert_true(mt_estimate_bytes(&e).high > 0x1p64);
	assert_true(mt_estimate_bytes(&e).low >= 0);
}

/* ---- against heapprofd's rules ---- */

/* Mean, relative standard deviation, records a block, of one program over all seeds. */
struct quality {
	double mean, deviation, records;
};

static struct quality measure(const struct program *p, enum rule rule)
{
	double truth = know(p).bytes, sum = 0, squares = 0, records = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct outcome o = play(p, rule, seed);

		sum += o.bytes / truth / SEEDS;
		squares += (o.bytes / truth - 1) * (o.bytes / truth - 1) / SEEDS;
		records += (double)o.records / SEEDS;
	}
	return (struct quality){sum, sqrt(squares), records / know(p).count};
}

static struct program blocks_of(uint64_t size)
{
	return (struct program){"", 512 K, 1, 1, {{size, 100}}, false};
}

static void all_rules_are_right_in_the_mean(void **unused)
{
	for (int rule = OURS; rule <= HEAPPROFD_NEW; rule++)
		for (size_t i = 3; i < 8; i++) {
			struct quality q = measure(&programs[i], (enum rule)rule);

			assert_true(fabs(q.mean - 1) < 3.5 * q.deviation / sqrt(SEEDS) + 1e-12);
		}
}

/* The old rule cuts at the interval: one byte more makes every block recorded, and all sure. */
static void old_rule_jumps_at_the_interval_and_ours_does_not(void **unused)
{
	struct program below = blocks_of(512 K - 1), above = blocks_of(512 K);
	struct quality old_below = measure(&below, HEAPPROFD_OLD);
	struct quality old_above = measure(&above, HEAPPROFD_OLD);
	struct quality our_below = measure(&below, OURS), our_above = measure(&above, OURS);

	print_message("at the interval, of 100 blocks: old %.3f then %.3f recorded, deviation "
		      "%.3f then %.3f; ours %.3f, %.3f, deviation %.3f, %.3f\n",
		      old_below.records, old_above.records, old_below.deviation,
		      old_above.deviation, our_below.records, our_above.records,
		      our_below.deviation, our_above.deviation);
	assert_true(old_below.records < 0.66 && old_above.records > 0.9999);
	assert_true(fabs(our_above.records - our_below.records) < 0.01);
	assert_true(fabs(our_above.deviation - our_below.deviation) < 0.005);
	/* same records, less error: 0.076 to 0.1 of the whole */
	assert_true(our_below.deviation < 0.85 * old_below.deviation);
}

/* With the cut moved to 99 %, counting points makes blocks below it 4.6 times as uncertain. */
static void new_rule_jumps_at_the_cut_and_ours_hardly_does(void **unused)
{
	struct program below = blocks_of(mt_sampling_certain_bytes(512 K) - 1);
	struct quality theirs = measure(&below, HEAPPROFD_NEW), ours = measure(&below, OURS);

	print_message("below the cut: theirs deviates by %.4f, ours by %.4f\n", theirs.deviation,
		      ours.deviation);
	assert_true(ours.deviation < 0.012 && theirs.deviation > 0.04);
	assert_true(fabs(ours.records - 0.99) < 0.002);
}

/* For one truth: no rule is better than ours with the same records. */
static void our_weight_never_has_the_larger_error(void **unused)
{
	for (size_t i = 3; i < 8; i++) {
		struct quality ours = measure(&programs[i], OURS);
		struct quality theirs = measure(&programs[i], HEAPPROFD_NEW);

		assert_true(ours.deviation <= theirs.deviation * 1.05);
	}
}

/* ---- growth ---- */

/* Blocks that were there before and stay, some that go, some that come; T = 64 KiB. */
static void growth_counts_only_what_is_not_in_both(void **unused)
{
	struct program stays = {"", 64 K, 1, 10, {{100, 40000}, {3000, 500}}, false};
	struct program goes = {"", 64 K, 1, 4, {{100, 4000}, {80000, 2}}, false};
	struct program comes = {"", 64 K, 1, 9, {{100, 4000}, {80000, 2}}, false};
	double truth = know(&comes).bytes - know(&goes).bytes, covered = 0, wide = 0, plain = 0;

	for (uint64_t seed = 1; seed <= SEEDS; seed++) {
		struct mt_estimate stay = play(&stays, OURS, seed).e;
		struct mt_estimate went = play(&goes, OURS, seed + 5000).e;
		struct mt_estimate came = play(&comes, OURS, seed + 9000).e;
		struct mt_interval i = mt_estimate_growth_bytes(&came, &went), all;
		struct mt_estimate before = stay, after = stay;

		mt_estimate_merge(&before, &went);
		mt_estimate_merge(&after, &came);
		all = mt_estimate_growth_bytes(&after, &before);
		covered += (i.low <= truth && truth <= i.high) / (double)SEEDS;
		wide += (all.high - all.low) / SEEDS;
		plain += (i.high - i.low) / SEEDS;
	}
	print_message("growth covered %.3f, width %.0f instead of %.0f\n", covered, plain, wide);
	assert_true(covered >= 0.93 && covered <= 0.975);
	assert_true(plain < wide / 3);
}

static void growth_of_many_samples_is_normal(void **unused)
{
	struct mt_sampling s = {MT_SAMPLING_POISSON, 1ull << 40, 0};
	struct mt_estimate came = {0}, went = {0};
	struct mt_interval i;

	for (int k = 0; k < 900; k++)
		mt_estimate_add(&came, &s, 16);
	for (int k = 0; k < 1600; k++)
		mt_estimate_add(&went, &s, 16);
	i = mt_estimate_growth_bytes(&came, &went);
	assert_near(i.low, (-700 - 1.959964 * 50) * 0x1p40, 1e-6);
	assert_near(i.high, (-700 + 1.959964 * 50) * 0x1p40, 1e-6);
	i = mt_estimate_growth_count(&came, &went);
	assert_near(i.low, (-700 - 1.959964 * 50) * 0x1p36, 1e-6);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probability_is_that_of_a_point_in_the_block),
		cmocka_unit_test(a_sample_brings_size_over_probability),
		cmocka_unit_test(a_sum_of_sums_is_the_sum_of_all),
		cmocka_unit_test(everything_recorded_is_exact),
		cmocka_unit_test(torn_numbers_give_no_nonsense),
		cmocka_unit_test(quantiles_are_those_of_the_tables),
		cmocka_unit_test(quantile_and_distribution_are_inverse_everywhere),
		cmocka_unit_test(few_samples_have_the_exact_poisson_interval),
		cmocka_unit_test(no_sample_says_below_three_intervals),
		cmocka_unit_test(many_samples_have_the_normal_interval),
		cmocka_unit_test(intervals_of_equal_blocks_hold_for_every_size_and_number),
		cmocka_unit_test(
			estimates_of_every_mix_are_right_in_the_mean_and_their_intervals_hold),
		cmocka_unit_test(all_rules_are_right_in_the_mean),
		cmocka_unit_test(old_rule_jumps_at_the_interval_and_ours_does_not),
		cmocka_unit_test(new_rule_jumps_at_the_cut_and_ours_hardly_does),
		cmocka_unit_test(our_weight_never_has_the_larger_error),
		cmocka_unit_test(growth_counts_only_what_is_not_in_both),
		cmocka_unit_test(growth_of_many_samples_is_normal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
