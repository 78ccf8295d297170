/* SPDX-License-Identifier: MIT */
/* Sets of addresses, also against one bit for each address. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "base/alloc.h"
#include "memory.h"
#include "reach/range.h"

static void ranges_that_touch_are_joined(void **state)
{
	mt_auto(mt_ranges) struct mt_ranges r = {0};

	assert_int_equal(mt_ranges_add(&r, 30, 40), 0);
	assert_int_equal(mt_ranges_add(&r, 10, 20), 0);
	assert_int_equal(mt_ranges_add(&r, 50, 50), 0);
	assert_int_equal(mt_ranges_add(&r, 20, 25), 0);
	assert_int_equal(mt_ranges_add(&r, 12, 14), 0);
	mt_ranges_tidy(&r);
	assert_int_equal(r.count, 2);
	assert_int_equal(r.item[0].start, 10);
	assert_int_equal(r.item[0].end, 25);
	assert_int_equal(r.item[1].start, 30);
	assert_int_equal(mt_ranges_bytes(&r), 25);
}

static void an_address_is_found_in_its_range_only(void **state)
{
	static const struct mt_range r[] = {{10, 20}, {20, 21}, {30, 40}};

	assert_int_equal(mt_range_find(r, 3, 9), MT_RANGE_NONE);
	assert_int_equal(mt_range_find(r, 3, 10), 0);
	assert_int_equal(mt_range_find(r, 3, 19), 0);
	assert_int_equal(mt_range_find(r, 3, 20), 1);
	assert_int_equal(mt_range_find(r, 3, 25), MT_RANGE_NONE);
	assert_int_equal(mt_range_find(r, 3, 39), 2);
	assert_int_equal(mt_range_find(r, 3, 40), MT_RANGE_NONE);
	assert_int_equal(mt_range_find(NULL, 0, 40), MT_RANGE_NONE);
}

enum { SPACE = 300 };

static void add_random(struct mt_ranges *r, uint8_t *bit, uint64_t *seed)
{
	for (uint64_t n = memory_random(seed) % 12; n; n--) {
		uint64_t start = memory_random(seed) % SPACE;
		uint64_t end = start + memory_random(seed) % (SPACE - start);

		assert_int_equal(mt_ranges_add(r, start, end), 0);
		memset(bit + start, 1, end - start);
	}
	mt_ranges_tidy(r);
}

static void subtracting_equals_doing_it_address_by_address(void **state)
{
	uint64_t seed = 1;

	for (int round = 0; round < 2000; round++) {
		mt_auto(mt_ranges) struct mt_ranges a = {0}, b = {0};
		uint8_t in_a[SPACE] = {0}, in_b[SPACE] = {0};

		add_random(&a, in_a, &seed);
		add_random(&b, in_b, &seed);
		assert_int_equal(mt_ranges_subtract(&a, b.item, b.count), 0);
		for (uint64_t i = 0; i < SPACE; i++)
			assert_int_equal(mt_range_find(a.item, a.count, i) != MT_RANGE_NONE,
					 in_a[i] && !in_b[i]);
		for (size_t i = 1; i < a.count; i++)
			assert_true(a.item[i - 1].end < a.item[i].start);
	}
}

static void a_set_is_as_before_without_memory(void **state)
{
	mt_auto(mt_ranges) struct mt_ranges r = {0};
	static const struct mt_range hole = {12, 14};

	assert_int_equal(mt_ranges_add(&r, 10, 20), 0);
	mt_alloc_fail_from_for_test(1);
	assert_true(mt_ranges_subtract(&r, &hole, 1) < 0);
	mt_alloc_fail_from_for_test(0);
	assert_int_equal(r.count, 1);
	assert_int_equal(mt_ranges_bytes(&r), 10);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_that_touch_are_joined),
		cmocka_unit_test(an_address_is_found_in_its_range_only),
		cmocka_unit_test(subtracting_equals_doing_it_address_by_address),
		cmocka_unit_test(a_set_is_as_before_without_memory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
