/* SPDX-License-Identifier: MIT */
#include "test_all.h"

#include "base/alloc.h"
#include "base/arena.h"

static void blocks_are_aligned_distinct_and_zero(void **state)
{
	mt_auto(mt_arena) struct mt_arena *a = mt_arena_new();
	unsigned char *blocks[3000];
	for (size_t i = 0; i < 3000; i++) {
		size_t size = 1 + i * 7 % 500;
		blocks[i] = mt_arena_zalloc(a, size);
		assert_int_equal((uintptr_t)blocks[i] % 16, 0);
		for (size_t k = 0; k < size; k++)
			assert_int_equal(blocks[i][k], 0);
		memset(blocks[i], (int)(i % 251 + 1), size);
	}
	for (size_t i = 0; i < 3000; i++) {
		size_t size = 1 + i * 7 % 500;
		assert_int_equal(blocks[i][0], i % 251 + 1);
		assert_int_equal(blocks[i][size - 1], i % 251 + 1);
	}
}

static void large_block_between_small_ones_wastes_no_chunk(void **state)
{
	mt_auto(mt_arena) struct mt_arena *a = mt_arena_new();
	char *before = mt_arena_alloc(a, 16);
	assert_non_null(mt_arena_alloc(a, 10 << 20));
	char *after = mt_arena_alloc(a, 16);
	assert_ptr_equal(after, before + 16);
	assert_true(mt_arena_bytes(a) < (10 << 20) + 40000);
}

static void empty_block_is_valid(void **state)
{
	mt_auto(mt_arena) struct mt_arena *a = mt_arena_new();
	char *x = mt_arena_alloc(a, 0), *y = mt_arena_alloc(a, 0);
	assert_non_null(x);
	assert_ptr_not_equal(x, y);
}

static void sizes_that_overflow_give_null(void **state)
{
	mt_auto(mt_arena) struct mt_arena *a = mt_arena_new();
	assert_null(mt_arena_alloc(a, SIZE_MAX));
	assert_null(mt_arena_alloc(a, SIZE_MAX - 20));
	assert_null(mt_arena_array(a, SIZE_MAX / 4, 8));
	assert_null(mt_arena_strndup(a, "x", SIZE_MAX));
	assert_non_null(mt_arena_alloc(a, 1)); /* still in order */
}

static void strings_are_copied(void **state)
{
	mt_auto(mt_arena) struct mt_arena *a = mt_arena_new();
	char text[] = "hello world";
	char *all = mt_arena_strdup(a, text), *part = mt_arena_strndup(a, text, 5);
	text[0] = 'j';
	assert_string_equal(all, "hello world");
	assert_string_equal(part, "hello");
	assert_string_equal(mt_arena_printf(a, "%s-%d", part, 42), "hello-42");
	char *wide = mt_arena_printf(a, "%100000d", 7);
	assert_int_equal(strlen(wide), 100000);
	assert_int_equal(wide[99999], '7');
}

static void adopted_block_is_freed_with_the_arena(void **state)
{
	struct mt_arena *a = mt_arena_new();
	char *block = malloc(100); /* a leak here fails the run under a sanitizer */
	assert_int_equal(mt_arena_adopt(a, block), 0);
	mt_arena_free(a);
	mt_arena_free(NULL);
}

static void without_memory_every_call_gives_null(void **state)
{
	mt_alloc_fail_from_for_test(1);
	struct mt_arena *none = mt_arena_new();
	mt_alloc_fail_from_for_test(0);
	assert_null(none);
	mt_auto(mt_arena) struct mt_arena *a = mt_arena_new();
	mt_alloc_fail_from_for_test(1);
	void *small = mt_arena_alloc(a, 1), *big = mt_arena_alloc(a, 1 << 20);
	char *text = mt_arena_printf(a, "%d", 1);
	int adopted = mt_arena_adopt(a, small);
	mt_alloc_fail_from_for_test(0);
	assert_null(small);
	assert_null(big);
	assert_null(text);
	assert_int_equal(adopted, -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(blocks_are_aligned_distinct_and_zero),
		cmocka_unit_test(large_block_between_small_ones_wastes_no_chunk),
		cmocka_unit_test(empty_block_is_valid),
		cmocka_unit_test(sizes_that_overflow_give_null),
		cmocka_unit_test(strings_are_copied),
		cmocka_unit_test(adopted_block_is_freed_with_the_arena),
		cmocka_unit_test(without_memory_every_call_gives_null),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
