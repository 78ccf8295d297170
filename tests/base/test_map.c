/* SPDX-License-Identifier: MIT */
#include "test_all.h"

#include "base/alloc.h"
#include "base/map.h"

static void empty_map_holds_nothing(void **state)
{
	struct mt_map m = {0};
	size_t pos = 0;
	uint64_t key, value;
	assert_false(mt_map_get(&m, 0, NULL));
	assert_false(mt_map_next(&m, &pos, &key, &value));
	mt_map_done(&m);
	mt_map_done(NULL);
}

static void keys_are_found_again(void **state)
{
	mt_auto(mt_map) struct mt_map m = {0};
	uint64_t value = 0;
	for (uint64_t i = 0; i < 20000; i++)
		assert_int_equal(mt_map_set(&m, i << 12, i + 7), 0);
	assert_int_equal(m.count, 20000);
	for (uint64_t i = 0; i < 20000; i++) {
		assert_true(mt_map_get(&m, i << 12, &value));
		assert_int_equal(value, i + 7);
	}
	assert_false(mt_map_get(&m, 5, &value));
}

static void extreme_keys_are_keys_like_others(void **state)
{
	mt_auto(mt_map) struct mt_map m = {0};
	uint64_t value = 0;
	mt_map_set(&m, 0, 1);
	mt_map_set(&m, UINT64_MAX, 2);
	assert_true(mt_map_get(&m, 0, &value));
	assert_int_equal(value, 1);
	assert_true(mt_map_get(&m, UINT64_MAX, &value));
	assert_int_equal(value, 2);
}

static void set_replaces(void **state)
{
	mt_auto(mt_map) struct mt_map m = {0};
	uint64_t value = 0;
	mt_map_set(&m, 9, 1);
	mt_map_set(&m, 9, 2);
	assert_true(mt_map_get(&m, 9, &value));
	assert_int_equal(value, 2);
	assert_int_equal(m.count, 1);
}

static void place_of_a_new_key_is_zero_and_can_be_counted_up(void **state)
{
	mt_auto(mt_map) struct mt_map m = {0};
	bool created = false;
	*mt_map_at(&m, 3, &created) += 5;
	assert_true(created);
	*mt_map_at(&m, 3, &created) += 5;
	assert_false(created);
	assert_int_equal(*mt_map_at(&m, 3, NULL), 10);
}

static void walk_visits_each_entry_once(void **state)
{
	mt_auto(mt_map) struct mt_map m = {0};
	uint64_t key, value, keys = 0, values = 0, n = 0;
	for (uint64_t i = 1; i <= 100; i++)
		mt_map_set(&m, i, i * 2);
	for (size_t pos = 0; mt_map_next(&m, &pos, &key, &value); n++) {
		keys += key;
		values += value;
	}
	assert_int_equal(n, 100);
	assert_int_equal(keys, 5050);
	assert_int_equal(values, 10100);
}

static void map_without_memory_stays_as_it_was(void **state)
{
	mt_auto(mt_map) struct mt_map m = {0};
	uint64_t value = 0;
	for (uint64_t i = 0; i < 12; i++)
		mt_map_set(&m, i, i);
	mt_alloc_fail_from_for_test(1);
	assert_int_equal(mt_map_set(&m, 99, 1), -ENOMEM);
	mt_alloc_fail_from_for_test(0);
	assert_int_equal(m.count, 12);
	assert_true(mt_map_get(&m, 11, &value));
	assert_false(mt_map_get(&m, 99, &value));
}

static void strings_are_numbered_in_order_of_arrival(void **state)
{
	mt_auto(mt_strings) struct mt_strings s = {0};
	uint32_t a, b, again, empty;
	assert_int_equal(mt_strings_intern(&s, "alpha", 5, &a), 0);
	assert_int_equal(mt_strings_intern(&s, "beta!", 4, &b), 0);
	assert_int_equal(mt_strings_intern(&s, "alpha", 5, &again), 0);
	assert_int_equal(mt_strings_intern(&s, "", 0, &empty), 0);
	assert_int_equal(a, 1);
	assert_int_equal(b, 2);
	assert_int_equal(again, 1);
	assert_int_equal(empty, 0);
	assert_string_equal(mt_strings_get(&s, 2), "beta");
	assert_string_equal(mt_strings_get(&s, 0), "");
	assert_string_equal(mt_strings_get(&s, 3), "");
	assert_int_equal(mt_strings_find(&s, "alp", 3), UINT32_MAX);
	assert_int_equal(mt_strings_find(&s, "alpha", 5), 1);
}

static void many_strings_keep_their_numbers_and_places(void **state)
{
	mt_auto(mt_strings) struct mt_strings s = {0};
	uint32_t number;
	char text[32];
	mt_strings_intern(&s, "first", 5, &number);
	const char *first = mt_strings_get(&s, number);
	for (unsigned i = 0; i < 5000; i++) {
		int len = snprintf(text, sizeof(text), "string %u", i);
		assert_int_equal(mt_strings_intern(&s, text, (size_t)len, &number), 0);
		assert_int_equal(number, i + 2);
	}
	assert_ptr_equal(mt_strings_get(&s, 1), first);
	assert_string_equal(mt_strings_get(&s, 4001), "string 3999");
	assert_int_equal(mt_strings_find(&s, "string 4999", 11), 5001);
}

static void interning_survives_any_failed_allocation(void **state)
{
	for (size_t n = 1; n < 12; n++) {
		mt_auto(mt_strings) struct mt_strings s = {0};
		uint32_t number = 0;
		mt_alloc_fail_from_for_test(n);
		int r = 0;
		char text[16];
		for (unsigned i = 0; i < 40 && !r; i++) {
			snprintf(text, sizeof(text), "s%u", i);
			r = mt_strings_intern(&s, text, strlen(text), &number);
		}
		mt_alloc_fail_from_for_test(0);
		assert_true(r == 0 || r == -ENOMEM);
		assert_int_equal(mt_strings_intern(&s, "after", 5, &number), 0);
		assert_string_equal(mt_strings_get(&s, number), "after");
	}
}

static void hash_is_the_same_everywhere(void **state)
{
	assert_int_equal(mt_hash_u64(0), 0);
	assert_int_equal(mt_hash_bytes("memtrack", 8, 1), mt_hash_bytes("memtrack", 8, 1));
	assert_int_not_equal(mt_hash_bytes("memtrack", 8, 1), mt_hash_bytes("memtrack", 8, 2));
	assert_int_not_equal(mt_hash_bytes("ab", 2, 0), mt_hash_bytes("ab\0", 3, 0));
	/* a fixed value: results stand in files */
	assert_int_equal(mt_hash_bytes("memtrack", 8, 0), 0xa1e0801bbcd9fd45u);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(empty_map_holds_nothing),
		cmocka_unit_test(keys_are_found_again),
		cmocka_unit_test(extreme_keys_are_keys_like_others),
		cmocka_unit_test(set_replaces),
		cmocka_unit_test(place_of_a_new_key_is_zero_and_can_be_counted_up),
		cmocka_unit_test(walk_visits_each_entry_once),
		cmocka_unit_test(map_without_memory_stays_as_it_was),
		cmocka_unit_test(strings_are_numbered_in_order_of_arrival),
		cmocka_unit_test(many_strings_keep_their_numbers_and_places),
		cmocka_unit_test(interning_survives_any_failed_allocation),
		cmocka_unit_test(hash_is_the_same_everywhere),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
