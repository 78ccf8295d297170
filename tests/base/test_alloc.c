/* SPDX-License-Identifier: MIT */
#include "test_all.h"

#include "base/alloc.h"
#include "base/cleanup.h"

static void zeroed_block_is_zero(void **state)
{
	mt_auto(free) uint32_t *p = mt_alloc_zero(100, 4);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(p[i], 0);
}

static void product_that_overflows_gives_null(void **state)
{
	assert_null(mt_alloc_zero(SIZE_MAX / 2, 4));
	size_t product = 7;
	assert_int_equal(mt_mul_size(SIZE_MAX / 2, 2, &product), 0);
	assert_int_equal(product, SIZE_MAX - 1);
	assert_int_not_equal(mt_mul_size(SIZE_MAX / 2 + 1, 2, &product), 0);
}

static void array_grows_and_keeps_its_content(void **state)
{
	size_t cap = 0;
	uint64_t *a = NULL;
	unsigned moves = 0;
	for (uint64_t i = 0; i < 10000; i++) {
		size_t before = cap;
		uint64_t *grown = mt_alloc_grow(a, &cap, i + 1, sizeof(*a));
		assert_non_null(grown);
		a = grown;
		a[i] = i * i;
		moves += cap != before;
	}
	assert_true(moves < 30); /* geometric */
	for (uint64_t i = 0; i < 10000; i++)
		assert_int_equal(a[i], i * i);
	free(a);
}

static void array_that_cannot_grow_stays(void **state)
{
	size_t cap = 0;
	mt_auto(free) uint32_t *a = mt_alloc_grow(NULL, &cap, 3, sizeof(*a));
	a[2] = 5;
	size_t before = cap;
	assert_null(mt_alloc_grow(a, &cap, SIZE_MAX / 2, sizeof(*a)));
	assert_int_equal(cap, before);
	assert_int_equal(a[2], 5);
}

static void growth_to_what_there_is_does_nothing(void **state)
{
	size_t cap = 0;
	mt_auto(free) uint32_t *a = mt_alloc_grow(NULL, &cap, 3, sizeof(*a));
	mt_alloc_fail_from_for_test(1);
	assert_ptr_equal(mt_alloc_grow(a, &cap, cap, sizeof(*a)), a);
	mt_alloc_fail_from_for_test(0);
}

static void nth_allocation_and_later_ones_fail_when_asked(void **state)
{
	mt_alloc_fail_from_for_test(2);
	void *first = mt_alloc(1), *second = mt_alloc(1), *third = mt_alloc_zero(1, 1);
	assert_int_equal(mt_alloc_fail_from_for_test(0), 3);
	assert_non_null(first);
	assert_null(second);
	assert_null(third);
	free(first);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(zeroed_block_is_zero),
		cmocka_unit_test(product_that_overflows_gives_null),
		cmocka_unit_test(array_grows_and_keeps_its_content),
		cmocka_unit_test(array_that_cannot_grow_stays),
		cmocka_unit_test(growth_to_what_there_is_does_nothing),
		cmocka_unit_test(nth_allocation_and_later_ones_fail_when_asked),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
