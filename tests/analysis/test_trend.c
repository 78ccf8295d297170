/* SPDX-License-Identifier: MIT */
/*
 * The trend test on synthetic series whose truth is known: leaks, noise, caches, sawtooth, daily
 * cycles, deployments. Seeds are fixed, so every run counts the same.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/trend.h"
#include "core/cc.h"

#define MINUTE_NS (60 * 1000000000ull)
enum {
	STEP_MINUTES = 10,            /* from one point to the next */
	DAY = 24 * 60 / STEP_MINUTES, /* points */
	HORIZON = 14 * DAY,
	LOOK = 12, /* points from one look to the next: two hours */
	LEVEL = 100 << 20,
};

/* ---- series ---- */

static uint64_t random_u64(uint64_t *seed)
{
	uint64_t z = *seed += 0x9e3779b97f4a7c15u;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

static double uniform(uint64_t *seed)
{
	return (double)(random_u64(seed) >> 11) / 9007199254740992.0;
}

static double normal(uint64_t *seed)
{
	double u = uniform(seed), v = uniform(seed);

	return sqrt(-2 * log(1 - u)) * cos(2 * M_PI * v);
}

/* Noise of a memory: each value keeps `keep` of the one before; standard deviation sd. */
static void add_noise(double *y, uint32_t n, double keep, double sd, uint64_t seed)
{
	double e = normal(&seed) * sd, fresh = sd * sqrt(1 - keep * keep);

	for (uint32_t i = 0; i < n; i++) {
		y[i] += e;
		e = keep * e + fresh * normal(&seed);
	}
}

struct series {
	uint64_t time_ns[HORIZON], value[HORIZON];
	double y[HORIZON];
};

static struct series series;

static void begin(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		series.time_ns[i] = i * STEP_MINUTES * MINUTE_NS;
		series.y[i] = LEVEL;
	}
}

static struct mt_trend look(uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		series.value[i] = series.y[i] > 0 ? (uint64_t)series.y[i] : 0;
	return mt_trend_find(series.time_ns, series.value, n);
}

/* ---- the reference: Mann and Kendall's test as the books have it ---- */

/* S of the first n points from that of the first n - 1. */
static double next_s(double before, uint32_t n)
{
	const uint64_t *v = series.value;

	for (uint32_t i = 0; i + 1 < n; i++)
		before += (v[n - 1] > v[i]) - (v[n - 1] < v[i]);
	return before;
}

static double z_of(double s, double n)
{
	double variance = n * (n - 1) * (2 * n + 5) / 18;

	return s > 0 ? (s - 1) / sqrt(variance) : s < 0 ? (s + 1) / sqrt(variance) : 0;
}

static void the_reference_has_the_values_of_the_books(void **state)
{
	static const uint64_t v[] = {23, 24, 29, 6, 29, 24, 24, 29, 23};
	double s = 0;

	memcpy(series.value, v, sizeof(v));
	for (uint32_t n = 1; n <= MT_ARRAY_LEN(v); n++)
		s = next_s(s, n);
	assert_int_equal((int)s, 3);
	for (uint32_t i = 0; i < 10; i++)
		series.value[i] = i;
	s = 0;
	for (uint32_t n = 1; n <= 10; n++)
		s = next_s(s, n);
	assert_int_equal((int)s, 45);
	assert_true(fabs(z_of(s, 10) - 3.9354) < 0.001);
}

/* ---- leaks against the reference ---- */

enum { QUIET = 100, LEAKS = 50 }; /* ten times as many in the suite soak */

static uint32_t times = 1;

struct looks {
	double highest_z; /* of the reference, over all looks */
	uint32_t called;  /* point of ours' first call; 0: never */
};

/* The first look from `from` on in which the reference's z is above a limit; 0: none. */
static uint32_t reference_calls(double limit, double *ret_highest)
{
	double s = 0, highest = 0;

	for (uint32_t n = 1; n <= HORIZON; n++) {
		double z;

		s = next_s(s, n);
		if (n % LOOK || n < MT_TREND_POINTS_MIN)
			continue;
		z = z_of(s, n);
		highest = MT_MAX(highest, z);
		if (z > limit)
			return n;
	}
	if (ret_highest)
		*ret_highest = highest;
	return 0;
}

static uint32_t ours_calls(void)
{
	for (uint32_t n = LOOK; n <= HORIZON; n += LOOK)
		if (mt_trend_find(series.time_ns, series.value, n).verdict == MT_TREND_GROWS)
			return n;
	return 0;
}

static void make(double leak_a_day, double keep, double sd, uint64_t seed)
{
	begin(HORIZON);
	for (uint32_t i = 0; i < HORIZON; i++)
		series.y[i] *= 1 + leak_a_day * i / DAY;
	add_noise(series.y, HORIZON, keep, sd * LEVEL, seed);
	look(HORIZON);
}

static void compare_delays(double keep, double sd)
{
	static double highest[10 * QUIET];
	uint32_t quiet = QUIET * times, leaks = LEAKS * times;
	double limit, ours = 0, reference = 0;
	uint32_t alarms = 0, missed = 0;

	for (uint32_t i = 0; i < quiet; i++) {
		make(0, keep, sd, 1000 + i);
		highest[i] = 0;
		reference_calls(INFINITY, &highest[i]);
		alarms += ours_calls() != 0;
	}
	/* the reference's limit: as many false alarms as ours, at least one */
	limit = 0;
	for (uint32_t rank = 0; rank <= MT_MAX(alarms, 1u); rank++) {
		double top = 0;

		for (uint32_t i = 0; i < quiet; i++)
			if (highest[i] > top && (!rank || highest[i] < limit))
				top = highest[i];
		limit = top;
	}
	for (uint32_t i = 0; i < leaks; i++) {
		uint32_t a, b;

		make(0.01, keep, sd, 500000 + i);
		a = ours_calls();
		b = reference_calls(limit, NULL);
		missed += !a || !b;
		ours += a ? a : HORIZON;
		reference += b ? b : HORIZON;
	}
	print_message("noise %.1f %% (keeps %.2f): false alarms %u of %u, limit of the reference "
		      "%.2f; delay %.2f days, reference %.2f, ratio %.3f, missed %u of %u\n",
		      sd * 100, keep, alarms, quiet, limit, ours / leaks / DAY,
		      reference / leaks / DAY, ours / reference, missed, leaks);
	assert_true(alarms <= quiet / 50);
	assert_true(ours <= 1.5 * reference);
	assert_true(missed == 0);
}

static void a_leak_is_called_as_soon_as_mann_and_kendall_do(void **state)
{
	compare_delays(0.5, 0.02);
	if (times > 1) {
		compare_delays(0, 0.02);
		compare_delays(0.9, 0.02);
	}
}

/* ---- what is no leak ---- */

struct tally {
	uint32_t n[MT_TREND_FALLS + 1];
};

static void count(struct tally *t, uint32_t n)
{
	t->n[look(n).verdict]++;
}

static void print_tally(const char *what, const struct tally *t)
{
	print_message("%-34s", what);
	for (int i = 0; i <= MT_TREND_FALLS; i++)
		print_message(" %s %u", mt_trend_word(i), t->n[i]);
	print_message("\n");
}

enum { EACH = 100 };

/* A cache that fills at a speed that falls, or at one speed until it is full. */
static void a_cache_that_filled_is_not_called(void **state)
{
	static const double noises[] = {0, 0.002, 0.02};

	for (int kind = 0; kind < 2; kind++)
		for (uint32_t k = 0; k < MT_ARRAY_LEN(noises); k++) {
			struct tally t = {{0}};

			for (uint64_t i = 0; i < EACH; i++) {
				uint64_t seed = 77 + i;
				double full = DAY * (0.2 + 1.5 * uniform(&seed));
				double size = LEVEL * (0.3 + uniform(&seed));

				begin(HORIZON);
				for (uint32_t n = 0; n < HORIZON; n++)
					series.y[n] += kind ? size * (1 - exp(-3.0 * n / full))
							    : size * MT_MIN(n / full, 1.0);
				add_noise(series.y, HORIZON, 0.5, noises[k] * LEVEL, seed);
				count(&t, (uint32_t)(full * (3 + 5 * uniform(&seed))));
			}
			print_tally(kind ? "cache, slower and slower" : "cache, full at once", &t);
			assert_in_range(t.n[MT_TREND_GROWS], 0, EACH / 100);
		}
}

static void a_sawtooth_is_not_called(void **state)
{
	static const double noises[] = {0, 0.01, 0.05};

	for (uint32_t k = 0; k < MT_ARRAY_LEN(noises); k++) {
		struct tally t = {{0}};

		for (uint64_t i = 0; i < EACH; i++) {
			uint64_t seed = 99 + i;
			double period = DAY * (0.2 + uniform(&seed)), phase = uniform(&seed);

			begin(HORIZON);
			for (uint32_t n = 0; n < HORIZON; n++)
				series.y[n] += LEVEL * 0.5 * fmod(n / period + phase, 1);
			add_noise(series.y, HORIZON, 0.5, noises[k] * LEVEL, seed);
			count(&t, (uint32_t)(period * (2.5 + 8 * uniform(&seed))));
		}
		print_tally("sawtooth", &t);
		assert_in_range(t.n[MT_TREND_GROWS], 0, EACH / 50);
	}
}

static void a_daily_cycle_is_not_called(void **state)
{
	static const double noises[] = {0, 0.01, 0.05};

	for (uint32_t k = 0; k < MT_ARRAY_LEN(noises); k++) {
		struct tally t = {{0}};

		for (uint64_t i = 0; i < EACH; i++) {
			uint64_t seed = 55 + i;
			double phase = uniform(&seed);

			begin(HORIZON);
			for (uint32_t n = 0; n < HORIZON; n++)
				series.y[n] +=
					LEVEL * 0.2 * sin(2 * M_PI * (n / (double)DAY + phase));
			add_noise(series.y, HORIZON, 0.5, noises[k] * LEVEL, seed);
			count(&t, (uint32_t)(DAY * (1.5 + 10 * uniform(&seed))));
		}
		print_tally("daily cycle", &t);
		assert_in_range(t.n[MT_TREND_GROWS], 0, EACH / 50);
	}
}

static void a_step_at_a_deployment_is_not_called(void **state)
{
	static const double noises[] = {0, 0.005, 0.02};

	for (uint32_t k = 0; k < MT_ARRAY_LEN(noises); k++) {
		struct tally t = {{0}};

		for (uint64_t i = 0; i < EACH; i++) {
			uint64_t seed = 33 + i;
			uint32_t n = (uint32_t)(DAY * (1 + 10 * uniform(&seed)));
			double at = n * (0.1 + 0.75 * uniform(&seed));

			begin(HORIZON);
			for (uint32_t p = 0; p < n; p++)
				series.y[p] += p > at ? LEVEL * 0.2 : 0;
			add_noise(series.y, n, 0.5, noises[k] * LEVEL, seed);
			count(&t, n);
		}
		print_tally("step", &t);
		assert_in_range(t.n[MT_TREND_GROWS], 0, EACH / 50);
	}
}

static void noise_that_wanders_is_seldom_called(void **state)
{
	struct tally t = {{0}};

	for (uint64_t i = 0; i < EACH; i++) {
		begin(HORIZON);
		add_noise(series.y, HORIZON, 0.999, 0.1 * LEVEL, 11 + i);
		count(&t, HORIZON);
	}
	print_tally("noise that wanders", &t);
	assert_in_range(t.n[MT_TREND_GROWS], 0, EACH / 10);
}

/* ---- leaks in company ---- */

static void a_leak_is_called_behind_a_step_and_in_a_filling_cache(void **state)
{
	struct tally steps = {{0}}, caches = {{0}}, cycles = {{0}}, late = {{0}};

	for (uint64_t i = 0; i < EACH; i++) {
		uint64_t seed = 22 + i;

		begin(HORIZON);
		for (uint32_t n = 0; n < HORIZON; n++)
			series.y[n] += LEVEL * ((n > HORIZON / 3) * 0.3 + 0.01 * n / DAY);
		add_noise(series.y, HORIZON, 0.5, 0.01 * LEVEL, seed);
		count(&steps, HORIZON);
		begin(HORIZON);
		for (uint32_t n = 0; n < HORIZON; n++)
			series.y[n] +=
				LEVEL * (MT_MIN(n / (1.0 * DAY), 1.0) * 0.05 + 0.02 * n / DAY);
		add_noise(series.y, HORIZON, 0.5, 0.01 * LEVEL, seed);
		count(&caches, HORIZON);
		begin(HORIZON);
		for (uint32_t n = 0; n < HORIZON; n++)
			series.y[n] += LEVEL * (0.05 * sin(2 * M_PI * n / DAY) + 0.01 * n / DAY);
		add_noise(series.y, HORIZON, 0.5, 0.01 * LEVEL, seed);
		count(&cycles, HORIZON);
		begin(HORIZON);
		for (uint32_t n = 0; n < HORIZON; n++)
			series.y[n] += LEVEL * 0.02 * (n > HORIZON / 2 ? n - HORIZON / 2 : 0) / DAY;
		add_noise(series.y, HORIZON, 0.5, 0.01 * LEVEL, seed);
		count(&late, HORIZON);
	}
	print_tally("leak and a step", &steps);
	print_tally("leak and a cache", &caches);
	print_tally("leak and a daily cycle", &cycles);
	print_tally("leak that begins late", &late);
	assert_in_range(steps.n[MT_TREND_GROWS], EACH * 95 / 100, EACH);
	assert_in_range(caches.n[MT_TREND_GROWS], EACH * 95 / 100, EACH);
	assert_in_range(cycles.n[MT_TREND_GROWS], EACH * 95 / 100, EACH);
	assert_in_range(late.n[MT_TREND_GROWS], EACH * 95 / 100, EACH);
}

/* ---- exact values ---- */

static void an_even_rise_has_its_slope(void **state)
{
	struct mt_trend t;

	for (uint32_t i = 0; i < 60; i++) {
		series.time_ns[i] = i * MINUTE_NS;
		series.value[i] = 1000 + 600 * i;
	}
	t = mt_trend_find(series.time_ns, series.value, 60);
	assert_int_equal(t.verdict, MT_TREND_GROWS);
	assert_true(fabs(t.slope - 10) < 1e-6);
	assert_true(t.slope_low > 9.99 && t.slope_high < 10.01);
	assert_int_equal(t.grew, 59);
	assert_int_equal(t.intervals, 59);
	assert_int_equal(t.first, 0);
	assert_true(t.p < 1e-9);
}

/* A leak that goes with a load which changes all the time, and stands still at night. */
static void uneven_growth_without_a_way_back_is_called(void **state)
{
	struct tally t = {{0}};
	int by_steps = 0;

	for (uint64_t i = 0; i < EACH; i++) {
		uint64_t seed = 3 + i;
		double sum = 0;
		struct mt_trend found;

		begin(400);
		for (uint32_t n = 0; n < 400; n++) {
			double load = 1 + sin(2 * M_PI * n / DAY + (double)i);

			sum += load > 0.3 ? load * load * -log(1 - uniform(&seed)) * 1e4 : 0;
			series.y[n] += sum;
		}
		count(&t, 400);
		found = look(400);
		/* an interval that reaches 0 is never that of the test which called it */
		if (found.verdict == MT_TREND_GROWS && found.slope_low <= 0)
			assert_true(found.by_steps);
		by_steps += found.by_steps;
	}
	print_tally("leak with the load", &t);
	assert_true(by_steps > 0);
	assert_in_range(t.n[MT_TREND_GROWS], EACH * 95 / 100, EACH);
}

/* Steps that come at irregular times, and then no more: as a cache that fills under a stalled load.
 */
static void what_stands_still_for_longer_than_ever_has_ended(void **state)
{
	for (uint64_t i = 0; i < 200; i++) {
		uint64_t seed = 7 + i, time = 0;
		struct mt_trend t;

		for (uint32_t n = 0; n < 60; n++) {
			time += (uint64_t)(MINUTE_NS * pow(-log(1 - uniform(&seed)), i % 4));
			series.time_ns[n] = time;
			series.value[n] = 40000 * MT_MIN(n, 30u);
		}
		t = mt_trend_find(series.time_ns, series.value, 60);
		assert_int_equal(t.verdict, MT_TREND_LEVELLED);
		for (uint32_t n = 0; n < 60; n++)
			series.value[n] = 40000 * n;
		t = mt_trend_find(series.time_ns, series.value, 60);
		assert_int_equal(t.verdict, MT_TREND_GROWS);
		for (uint32_t n = 0; n < 60; n++) /* a queue */
			series.value[n] = 10000 * (n % 9);
		t = mt_trend_find(series.time_ns, series.value, 60);
		assert_int_not_equal(t.verdict, MT_TREND_GROWS);
		for (uint32_t n = 0; n < 60; n++) /* one large block now and then */
			series.value[n] = 400000 * (n / 3);
		t = mt_trend_find(series.time_ns, series.value, 60);
		assert_int_equal(t.verdict, MT_TREND_GROWS);
	}
}

static void the_interval_holds_the_slope_in_95_of_100(void **state)
{
	enum { TIMES = 1000, POINTS = 300 };
	uint32_t inside = 0;

	for (uint64_t i = 0; i < TIMES; i++) {
		struct mt_trend t;

		begin(POINTS);
		for (uint32_t n = 0; n < POINTS; n++)
			series.y[n] += 600.0 * STEP_MINUTES * n;
		add_noise(series.y, POINTS, 0, 0.01 * LEVEL, i);
		t = look(POINTS);
		inside += t.slope_low <= 10 && t.slope_high >= 10;
	}
	print_message("the 95 %% interval held the slope in %u of %d\n", inside, TIMES);
	assert_in_range(inside, TIMES * 93 / 100, TIMES * 99 / 100);
}

static void few_points_and_no_time_say_nothing(void **state)
{
	static const uint64_t same[20] = {0};

	begin(20);
	for (uint32_t n = 0; n < MT_TREND_POINTS_MIN; n++)
		assert_int_equal(look(n).verdict, MT_TREND_TOO_FEW);
	assert_int_equal(look(MT_TREND_POINTS_MIN).verdict, MT_TREND_STEADY);
	assert_int_equal(mt_trend_find(same, series.value, 20).verdict, MT_TREND_TOO_FEW);
}

static void a_constant_is_steady(void **state)
{
	struct mt_trend t;

	begin(500);
	t = look(500);
	assert_int_equal(t.verdict, MT_TREND_STEADY);
	assert_true(t.slope == 0 && t.z == 0);
	assert_int_equal(t.grew, 0);
}

static void any_values_give_a_verdict(void **state)
{
	uint64_t seed = 5;

	for (int i = 0; i < 300; i++) {
		uint32_t n = (uint32_t)(random_u64(&seed) % 400);
		uint64_t time = 0;

		for (uint32_t p = 0; p < n; p++) {
			time += random_u64(&seed) >> (random_u64(&seed) % 64) >> 10;
			series.time_ns[p] = time;
			series.value[p] = random_u64(&seed) >> (random_u64(&seed) % 64);
		}
		assert_in_range(mt_trend_find(series.time_ns, series.value, n).verdict, 0,
				MT_TREND_FALLS);
	}
}

int main(int argc, char **argv)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_reference_has_the_values_of_the_books),
		cmocka_unit_test(an_even_rise_has_its_slope),
		cmocka_unit_test(uneven_growth_without_a_way_back_is_called),
		cmocka_unit_test(what_stands_still_for_longer_than_ever_has_ended),
		cmocka_unit_test(the_interval_holds_the_slope_in_95_of_100),
		cmocka_unit_test(few_points_and_no_time_say_nothing),
		cmocka_unit_test(a_constant_is_steady),
		cmocka_unit_test(any_values_give_a_verdict),
		cmocka_unit_test(a_cache_that_filled_is_not_called),
		cmocka_unit_test(a_sawtooth_is_not_called),
		cmocka_unit_test(a_daily_cycle_is_not_called),
		cmocka_unit_test(a_step_at_a_deployment_is_not_called),
		cmocka_unit_test(noise_that_wanders_is_seldom_called),
		cmocka_unit_test(a_leak_is_called_behind_a_step_and_in_a_filling_cache),
		cmocka_unit_test(a_leak_is_called_as_soon_as_mann_and_kendall_do),
	};

	times = argc > 1 ? 10 : 1;
	return cmocka_run_group_tests(tests, NULL, NULL);
}
