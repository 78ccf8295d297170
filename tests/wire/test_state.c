/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "wire/state.h"

static void size_buckets_are_powers_of_two(void **state)
{
	assert_int_equal(mt_state_size_bucket(0), 0);
	for (uint32_t b = 1; b < MT_SIZE_BUCKETS - 1; b++) {
		uint64_t first = 1ull << (b - 1), last = (1ull << b) - 1;
		assert_int_equal(mt_state_size_bucket(first), b);
		assert_int_equal(mt_state_size_bucket(last), b);
	}
}

static void the_last_size_bucket_takes_the_rest(void **state)
{
	assert_int_equal(mt_state_size_bucket(1ull << 30), MT_SIZE_BUCKETS - 1);
	assert_int_equal(mt_state_size_bucket(1ull << 40), MT_SIZE_BUCKETS - 1);
	assert_int_equal(mt_state_size_bucket(UINT64_MAX), MT_SIZE_BUCKETS - 1);
}

static void life_buckets_are_powers_of_four(void **state)
{
	assert_int_equal(mt_state_life_bucket(0), 0);
	uint64_t first = 1;
	for (uint32_t b = 1; b < MT_LIFE_BUCKETS; b++, first *= 4) {
		assert_int_equal(mt_state_life_bucket((uint32_t)first), b);
		if (b < MT_LIFE_BUCKETS - 1)
			assert_int_equal(mt_state_life_bucket((uint32_t)(first * 4 - 1)), b);
	}
	assert_int_equal(mt_state_life_bucket(UINT32_MAX), MT_LIFE_BUCKETS - 1);
}

static void the_roots_hold_every_end_of_a_stack(void **state)
{
	assert_int_equal(MT_NODE_ROOTS, 16);
	assert_int_equal(sizeof(struct mt_state_header), MT_STATE_HEADER_BYTES);
	assert_int_equal(offsetof(struct mt_state_header, tail) +
				 sizeof(((struct mt_state_header *)0)->tail),
			 MT_STATE_HEADER_BYTES);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(size_buckets_are_powers_of_two),
		cmocka_unit_test(the_last_size_bucket_takes_the_rest),
		cmocka_unit_test(life_buckets_are_powers_of_four),
		cmocka_unit_test(the_roots_hold_every_end_of_a_stack),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
