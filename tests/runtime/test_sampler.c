/* SPDX-License-Identifier: MIT */
/* The integers of sampling against the formulas in floating point. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <math.h>
#include <stdlib.h>

#include "runtime/sampler.h"

static const uint64_t intervals[] = {2, 3, 16, 100, 4096, 524288, (1u << 30), MT_INTERVAL_MAX};

static void assert_near(double got, double wanted, double relative)
{
	if (!(fabs(got - wanted) <= relative * fabs(wanted)))
		fail_msg("%.12g, expected %.12g within %g of it", got, wanted, relative);
}

static void probabilities_are_those_of_the_exponential(void **state)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(intervals); i++) {
		uint64_t t = intervals[i], end = mt_sample_always_from(t);
		for (double x = 1; x < (double)end; x = x * 1.37 + 1) {
			uint64_t size = (uint64_t)x;
			double p = -expm1(-(double)size / (double)t);
			double got = ldexp((double)mt_sample_probability_q62(t, size), -62);
			/* the last digit of 2^-62 is more than that of a single byte in 1 TiB */
			assert_near(got, p, 1e-9 + ldexp(1, -58) / p);
		}
	}
}

static void from_ninety_nine_percent_on_a_block_stands_for_itself(void **state)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(intervals); i++) {
		uint64_t t = intervals[i], from = mt_sample_always_from(t);
		struct mt_state_regime r = {.kind = MT_REGIME_BYTES, .interval_bytes = t};
		assert_int_equal(from, (uint64_t)floor((double)t * log(100)) + 1);
		struct mt_weight w = mt_sample_weight(&r, from);
		assert_int_equal(w.bytes_q16, from << 16);
		assert_int_equal(w.count_q16, 1 << 16);
		assert_true(!w.bytes_variance && !w.count_variance);
		w = mt_sample_weight(&r, from - 1);
		assert_true(w.bytes_q16 > (from - 1) << 16);
	}
	assert_int_equal(mt_sample_always_from(1), 1);
}

static void weights_are_size_over_probability(void **state)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(intervals); i++) {
		uint64_t t = intervals[i], end = mt_sample_always_from(t);
		struct mt_state_regime r = {.kind = MT_REGIME_BYTES, .interval_bytes = t};
		for (double x = 1; x < (double)end; x = x * 1.37 + 1) {
			double s = floor(x), p = -expm1(-s / (double)t);
			struct mt_weight w = mt_sample_weight(&r, (uint64_t)s);
			assert_near(ldexp((double)w.bytes_q16, -16), s / p, 2e-5);
			assert_near(ldexp((double)w.count_q16, -16), 1 / p, 2e-5);
			/* whole numbers */
			double v = (1 - p) * (s / p) * (s / p), c = (1 - p) / (p * p);
			assert_near((double)w.bytes_variance, v, 1e-4 + 2 / v);
			assert_near((double)w.count_variance, c, 1e-4 + 2 / c);
		}
	}
}

static void an_empty_block_stands_for_blocks_but_no_bytes(void **state)
{
	struct mt_state_regime r = {.kind = MT_REGIME_BYTES, .interval_bytes = 1000};
	struct mt_weight w = mt_sample_weight(&r, 0);
	assert_int_equal(w.bytes_q16, 0);
	assert_near(ldexp((double)w.count_q16, -16), 1 / -expm1(-1.0 / 1000), 1e-5);
}

static void every_nth_stands_for_n(void **state)
{
	struct mt_state_regime r = {.kind = MT_REGIME_EVERY, .every = 100};
	struct mt_weight w = mt_sample_weight(&r, 24);
	assert_near(ldexp((double)w.count_q16, -16), 100, 1e-5);
	assert_near(ldexp((double)w.bytes_q16, -16), 2400, 1e-5);
	assert_near((double)w.bytes_variance, 0.99 * 2400 * 2400, 1e-4);
	r.every = 65536; /* more bytes than the word holds: the largest number instead */
	assert_int_equal(mt_sample_weight(&r, (uint64_t)1 << 46).bytes_q16, INT64_MAX);
	r.every = 1;
	assert_int_equal(mt_sample_weight(&r, 24).bytes_q16, 24 << 16);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return x < y ? -1 : x > y;
}

/* Kolmogorov-Smirnov distance of n numbers in [0, 1) from the uniform distribution. */
static double ks_distance(double *u, size_t n)
{
	double worst = 0;
	qsort(u, n, sizeof(*u), by_value);
	for (size_t i = 0; i < n; i++) {
		worst = fmax(worst, fabs(u[i] - (double)i / (double)n));
		worst = fmax(worst, fabs(u[i] - (double)(i + 1) / (double)n));
	}
	return worst;
}

/* Over a hundred thread seeds, as thread.c makes them; 1.95 is passed once in 1000. */
static void distances_are_exponential(void **state)
{
	enum { SEEDS = 100, DRAWS = 2000 };
	static double u[SEEDS * DRAWS];
	const double t = 524288;
	double sum = 0;
	size_t n = 0;
	for (uint64_t seed = 0; seed < SEEDS; seed++) {
		uint64_t s = 0x123456789abcdef ^ seed << 32;
		for (int i = 0; i < DRAWS; i++, n++) {
			/* the distance is rounded up to whole bytes: half a byte back */
			double x = (double)mt_sample_distance(524288, mt_random_next(&s)) - 0.5;
			sum += x;
			u[n] = -expm1(-x / t);
		}
	}
	assert_near(sum / (double)n, t, 4 / sqrt((double)n));
	double d = ks_distance(u, n) * sqrt((double)n);
	if (d > 1.95)
		fail_msg("the distances are not exponential: %g", d);
}

/* Of the sum of neighbours, which a poor generator would get wrong. */
static void distances_are_independent(void **state)
{
	enum { PAIRS = 100000 };
	static double u[PAIRS];
	uint64_t s = 42;
	for (size_t i = 0; i < PAIRS; i++) {
		double a = (double)mt_sample_distance(1 << 20, mt_random_next(&s));
		double b = (double)mt_sample_distance(1 << 20, mt_random_next(&s));
		double x = (a + b - 1) / (1 << 20);
		u[i] = 1 - exp(-x) * (1 + x);
	}
	double d = ks_distance(u, PAIRS) * sqrt(PAIRS);
	if (d > 1.95)
		fail_msg("the distances depend on each other: %g", d);
}

static void the_shortest_distance_is_a_byte_and_the_longest_is_finite(void **state)
{
	assert_int_equal(mt_sample_distance(1, UINT64_MAX), 1);
	assert_int_equal(mt_sample_distance(524288, UINT64_MAX), 1);
	assert_near((double)mt_sample_distance(MT_INTERVAL_MAX, 0),
		    (double)MT_INTERVAL_MAX * 53 * log(2), 1e-9);
}

/* Against the C library's logarithm, over all parts of the table and both their ends. */
static void distances_are_minus_t_times_the_logarithm(void **state)
{
	const double t = (double)MT_INTERVAL_MAX;
	uint64_t s = 7;
	for (int i = 0; i < 200000; i++) {
		uint64_t part = (uint64_t)1 << 52 | (uint64_t)(i % 64) << 46,
			 r = mt_random_next(&s);
		uint64_t u = (i & 64    ? part + (r & 7)
			      : i & 128 ? part + ((uint64_t)1 << 46) - 1 - (r & 7)
					: part | r >> 18) >>
			     (r >> 40) % 50;
		double wanted = -t * log((double)u / 0x1p53);
		double got = (double)mt_sample_distance(MT_INTERVAL_MAX, (u - 1) << 11);
		if (got < wanted - 1e-12 * wanted || got > wanted + 1 + 1e-12 * wanted)
			fail_msg("u %llu: %.17g, and the logarithm says %.17g",
				 (unsigned long long)u, got, wanted);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(probabilities_are_those_of_the_exponential),
		cmocka_unit_test(from_ninety_nine_percent_on_a_block_stands_for_itself),
		cmocka_unit_test(weights_are_size_over_probability),
		cmocka_unit_test(an_empty_block_stands_for_blocks_but_no_bytes),
		cmocka_unit_test(every_nth_stands_for_n),
		cmocka_unit_test(distances_are_minus_t_times_the_logarithm),
		cmocka_unit_test(distances_are_exponential),
		cmocka_unit_test(distances_are_independent),
		cmocka_unit_test(the_shortest_distance_is_a_byte_and_the_longest_is_finite),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
