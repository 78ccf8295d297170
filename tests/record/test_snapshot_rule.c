/* SPDX-License-Identifier: MIT */
/* When the rules of --snapshot-on fire, on made-up readings. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "record/snapshot_rule.h"
#include "target/memory.h"

#define SECOND_NS 1000000000ull
#define MB 1000000ull

static const struct mt_snapshot_rule growth = {MT_SNAPSHOT_GROWTH, 10 * MB, 32 * SECOND_NS};

/* A process seen once a second. */
struct run {
	struct mt_snapshot_rule_state state;
	uint64_t now_ns, live_bytes;
};

/* How often the rule fires while the process grows by `step` bytes in each of `seconds`. */
static unsigned grow(struct run *r, unsigned seconds, uint64_t step)
{
	unsigned fired = 0;

	for (unsigned i = 0; i < seconds; i++) {
		r->now_ns += SECOND_NS;
		r->live_bytes += step;
		fired += mt_snapshot_rule_growing(&growth, &r->state, r->now_ns, r->live_bytes);
	}
	return fired;
}

static void growth_that_lasts_is_one(void **unused)
{
	struct run r = {.now_ns = 5 * SECOND_NS, .live_bytes = 50 * MB};

	assert_int_equal(grow(&r, 10, MB), 0);
	assert_int_equal(grow(&r, 1000, MB), 1);
	assert_int_equal(grow(&r, 1000, 5 * MB), 0);
}

static void growth_that_ended_and_comes_again_is_another(void **unused)
{
	struct run r = {.now_ns = 5 * SECOND_NS, .live_bytes = 50 * MB};

	for (int i = 0; i < 5; i++) {
		assert_int_equal(grow(&r, 20, MB), 1);
		assert_int_equal(grow(&r, 40, 0), 0);
	}
}

static void growth_about_the_limit_is_one(void **unused)
{
	struct run r = {.now_ns = 5 * SECOND_NS, .live_bytes = 50 * MB};
	unsigned fired = 0;

	for (int i = 0; i < 100; i++) {
		fired += grow(&r, 10, 400000); /* up to 11 MB in the time */
		fired += grow(&r, 10, 250000); /* down to 9.8 MB */
	}
	assert_int_equal(fired, 1);
}

static void slow_growth_is_none(void **unused)
{
	struct run r = {.now_ns = 5 * SECOND_NS};

	assert_int_equal(grow(&r, 2000, 300000), 0);
}

/* 0 for a state that could not be read would make all that is live growth. */
static void what_is_unknown_is_no_growth(void **unused)
{
	struct run r = {.now_ns = 5 * SECOND_NS, .live_bytes = 50 * MB};

	assert_int_equal(grow(&r, 40, 0), 0);
	r.now_ns += SECOND_NS;
	assert_false(mt_snapshot_rule_growing(&growth, &r.state, r.now_ns, MT_MEMORY_UNKNOWN));
	assert_int_equal(grow(&r, 40, 0), 0);
	/* nor does it end one */
	assert_int_equal(grow(&r, 20, MB), 1);
	for (int i = 0; i < 40; i++) {
		r.now_ns += SECOND_NS;
		assert_false(
			mt_snapshot_rule_growing(&growth, &r.state, r.now_ns, MT_MEMORY_UNKNOWN));
	}
	assert_true(r.state.is_above);
}

static void a_limit_is_crossed_once(void **unused)
{
	const struct mt_snapshot_rule rss = {MT_SNAPSHOT_RSS, 16 * MB, 0};
	struct mt_snapshot_rule_state s = {0};

	assert_false(mt_snapshot_rule_crossed(&rss, &s, 16 * MB));
	assert_true(mt_snapshot_rule_crossed(&rss, &s, 16 * MB + 1));
	assert_false(mt_snapshot_rule_crossed(&rss, &s, 17 * MB));
	assert_false(mt_snapshot_rule_crossed(&rss, &s, MT_MEMORY_UNKNOWN));
	assert_false(mt_snapshot_rule_crossed(&rss, &s, 15 * MB));
	assert_false(mt_snapshot_rule_crossed(&rss, &s, 17 * MB));
	assert_false(mt_snapshot_rule_crossed(&rss, &s, 14 * MB));
	assert_true(mt_snapshot_rule_crossed(&rss, &s, 17 * MB));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(growth_that_lasts_is_one),
		cmocka_unit_test(growth_that_ended_and_comes_again_is_another),
		cmocka_unit_test(growth_about_the_limit_is_one),
		cmocka_unit_test(slow_growth_is_none),
		cmocka_unit_test(what_is_unknown_is_no_growth),
		cmocka_unit_test(a_limit_is_crossed_once),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
