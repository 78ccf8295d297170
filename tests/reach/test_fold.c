/* SPDX-License-Identifier: MIT */
/* Which lost blocks explain the others, what hangs on them, and what is merged. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "memory.h"
#include "reach/fold.h"

#define BASE ((uint64_t)MEMORY_BASE)
enum { BLOCK_BYTES = 32, DISTANCE = 48, WORDS = BLOCK_BYTES / 8, BLOCKS_MAX = 4096 };

struct scene {
	struct memory memory;
	struct mt_range block[BLOCKS_MAX];
	uint64_t stack[BLOCKS_MAX];
	size_t blocks;
	unsigned words[BLOCKS_MAX]; /* in use, of each */
	struct mt_mark mark;
	struct mt_fold fold;
};

static struct scene *scene_new(size_t blocks)
{
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->blocks = blocks;
	for (size_t i = 0; i < blocks; i++)
		s->block[i] =
			(struct mt_range){BASE + DISTANCE * i, BASE + DISTANCE * i + BLOCK_BYTES};
	return s;
}

static void scene_free(struct scene *s)
{
	mt_mark_done(&s->mark);
	mt_fold_done(&s->fold);
	free(s);
}

/* Blocks are numbered from 1, as the cases do. */
static void point(struct scene *s, size_t from, size_t to)
{
	assert_true(s->words[from - 1] < WORDS);
	memory_put(&s->memory, s->block[from - 1].start + 8 * s->words[from - 1]++,
		   s->block[to - 1].start);
}

static void run(struct scene *s)
{
	struct mt_mark_input in = {.block = s->block,
				   .blocks = s->blocks,
				   .flags = MT_MARK_INTERIOR,
				   .read = memory_read,
				   .context = &s->memory};

	assert_int_equal(mt_mark_run(&in, &s->mark, NULL), 0);
	assert_int_equal(mt_fold_run(&s->mark, s->block, NULL, s->stack, &s->fold), 0);
}

static const struct mt_fold_leak *leak_of(const struct scene *s, size_t number)
{
	for (size_t i = 0; i < s->fold.leaks; i++)
		if (s->fold.leak[i].block == number - 1)
			return &s->fold.leak[i];
	fail_msg("block %zu is no leak", number);
	return NULL;
}

static void expect_totals(const struct scene *s, uint64_t lost, uint64_t direct)
{
	assert_int_equal(s->fold.lost_count, lost);
	assert_int_equal(s->fold.lost_bytes, lost * BLOCK_BYTES);
	assert_int_equal(s->fold.direct_count, direct);
	assert_int_equal(s->fold.direct_bytes, direct * BLOCK_BYTES);
}

static void C171_a_block_before_a_cycle_is_the_leak(void **state)
{
	struct scene *s = scene_new(3);

	point(s, 1, 2);
	point(s, 2, 3);
	point(s, 3, 2);
	run(s);
	assert_int_equal(s->fold.leaks, 1);
	assert_int_equal(leak_of(s, 1)->referenced_count, 2);
	assert_int_equal(leak_of(s, 1)->referenced_bytes, 2 * BLOCK_BYTES);
	expect_totals(s, 3, 1);
	scene_free(s);
}

static void C171_a_ring_of_a_thousand_hangs_on_one(void **state)
{
	enum { RING = 1000 };
	struct scene *s = scene_new(RING + 1);

	for (size_t i = 1; i <= RING; i++)
		point(s, i, i % RING + 1);
	point(s, RING + 1, 77);
	run(s);
	assert_int_equal(s->fold.leaks, 1);
	assert_int_equal(leak_of(s, RING + 1)->referenced_count, RING);
	expect_totals(s, RING + 1, 1);
	scene_free(s);
}

static void C172_each_block_of_a_cycle_is_a_leak(void **state)
{
	struct scene *s = scene_new(3);

	point(s, 1, 2);
	point(s, 2, 1);
	point(s, 2, 3);
	run(s);
	assert_int_equal(s->fold.leaks, 2);
	for (size_t i = 1; i <= 2; i++) {
		assert_int_equal(leak_of(s, i)->referenced_count, 2);
		assert_int_equal(leak_of(s, i)->cycle, 2);
		assert_int_equal(leak_of(s, i)->is_first, i == 1);
	}
	expect_totals(s, 3, 1);
	scene_free(s);
}

static void C173_a_block_with_two_parents_counts_once(void **state)
{
	struct scene *s = scene_new(4);

	point(s, 1, 2);
	point(s, 1, 3);
	point(s, 2, 4);
	point(s, 3, 4);
	run(s);
	assert_int_equal(s->fold.leaks, 1);
	assert_int_equal(leak_of(s, 1)->referenced_count, 3);
	expect_totals(s, 4, 1);
	scene_free(s);
}

static void a_child_of_two_leaks_is_in_both_and_once_in_the_totals(void **state)
{
	struct scene *s = scene_new(3);

	point(s, 1, 3);
	point(s, 2, 3);
	run(s);
	assert_int_equal(s->fold.leaks, 2);
	assert_int_equal(leak_of(s, 1)->referenced_count, 1);
	assert_int_equal(leak_of(s, 2)->referenced_count, 1);
	expect_totals(s, 3, 2);
	scene_free(s);
}

static void what_is_reachable_is_no_leak(void **state)
{
	struct scene *s = scene_new(4);
	const uint32_t held[] = {0, 2};

	point(s, 1, 2);
	point(s, 4, 2);
	run(s);
	mt_fold_done(&s->fold);
	mt_mark_hold(&s->mark, held, 2);
	assert_int_equal(mt_fold_run(&s->mark, s->block, NULL, NULL, &s->fold), 0);
	assert_int_equal(s->fold.leaks, 1);
	assert_int_equal(leak_of(s, 4)->referenced_count, 0);
	expect_totals(s, 1, 1);
	scene_free(s);
}

static void equal_stacks_are_merged(void **state)
{
	struct scene *s = scene_new(6);

	/* 1, 2 and 3 have one stack, and 2 has a child of another one; 5 and 6 have none */
	s->stack[0] = s->stack[1] = s->stack[2] = 7;
	s->stack[3] = 8;
	point(s, 2, 4);
	run(s);
	assert_int_equal(s->fold.leaks, 3);
	assert_int_equal(s->fold.leak[0].block, 1);
	assert_int_equal(s->fold.leak[0].referenced_count, 1);
	assert_int_equal(s->fold.leak[0].similar_count, 2);
	assert_int_equal(s->fold.leak[0].similar_bytes, 2 * BLOCK_BYTES);
	assert_int_equal(s->fold.leak[1].block, 4);
	assert_int_equal(s->fold.leak[2].block, 5);
	expect_totals(s, 6, 5);
	scene_free(s);
}

static void chains_may_be_long(void **state)
{
	struct scene *s = scene_new(BLOCKS_MAX);

	for (size_t i = BLOCKS_MAX; i > 1; i--)
		point(s, i, i - 1);
	run(s);
	assert_int_equal(s->fold.leaks, 1);
	assert_int_equal(leak_of(s, BLOCKS_MAX)->referenced_count, BLOCKS_MAX - 1);
	scene_free(s);
}

/* ---- against a naive way: reachability of every pair ---- */

enum { RANDOM_BLOCKS = 40 };

static void close_over(bool reach[RANDOM_BLOCKS][RANDOM_BLOCKS])
{
	for (int k = 0; k < RANDOM_BLOCKS; k++)
		for (int i = 0; i < RANDOM_BLOCKS; i++)
			for (int j = 0; j < RANDOM_BLOCKS; j++)
				reach[i][j] |= reach[i][k] && reach[k][j];
}

static void check_random(const struct scene *s, bool reach[RANDOM_BLOCKS][RANDOM_BLOCKS])
{
	size_t leaks = 0;

	for (int i = 0; i < RANDOM_BLOCKS; i++) {
		uint64_t below = 0, cycle = 1;
		bool is_leak = true;

		for (int j = 0; j < RANDOM_BLOCKS; j++) {
			is_leak &= !reach[j][i] || reach[i][j];
			below += j != i && reach[i][j];
			cycle += j != i && reach[i][j] && reach[j][i];
		}
		leaks += is_leak;
		if (!is_leak)
			continue;
		assert_int_equal(leak_of(s, (size_t)i + 1)->referenced_count, below);
		assert_int_equal(leak_of(s, (size_t)i + 1)->cycle, cycle);
	}
	assert_int_equal(s->fold.leaks, leaks);
}

static void random_graphs_are_folded_as_by_all_pairs(void **state)
{
	uint64_t seed = 3;

	for (int round = 0; round < 200; round++) {
		struct scene *s = scene_new(RANDOM_BLOCKS);
		bool reach[RANDOM_BLOCKS][RANDOM_BLOCKS] = {{false}};

		for (uint64_t n = memory_random(&seed) % 70; n; n--) {
			size_t from = memory_random(&seed) % RANDOM_BLOCKS;
			size_t to = memory_random(&seed) % RANDOM_BLOCKS;

			if (from == to || s->words[from] == WORDS)
				continue;
			point(s, from + 1, to + 1);
			reach[from][to] = true;
		}
		close_over(reach);
		run(s);
		check_random(s, reach);
		assert_int_equal(s->fold.lost_count, RANDOM_BLOCKS);
		scene_free(s);
	}
}

static void every_allocation_may_fail(void **state)
{
	struct scene *s = scene_new(6);
	size_t needed;

	s->stack[0] = s->stack[1] = 9;
	point(s, 3, 4);
	point(s, 4, 3);
	run(s);
	mt_fold_done(&s->fold);
	mt_alloc_fail_from_for_test(0);
	assert_int_equal(mt_fold_run(&s->mark, s->block, NULL, s->stack, &s->fold), 0);
	needed = mt_alloc_fail_from_for_test(0);
	mt_fold_done(&s->fold);
	for (size_t n = 1; n <= needed; n++) {
		mt_alloc_fail_from_for_test(n);
		assert_true(mt_fold_run(&s->mark, s->block, NULL, s->stack, &s->fold) < 0);
	}
	mt_alloc_fail_from_for_test(0);
	scene_free(s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(C171_a_block_before_a_cycle_is_the_leak),
		cmocka_unit_test(C171_a_ring_of_a_thousand_hangs_on_one),
		cmocka_unit_test(C172_each_block_of_a_cycle_is_a_leak),
		cmocka_unit_test(C173_a_block_with_two_parents_counts_once),
		cmocka_unit_test(a_child_of_two_leaks_is_in_both_and_once_in_the_totals),
		cmocka_unit_test(what_is_reachable_is_no_leak),
		cmocka_unit_test(equal_stacks_are_merged),
		cmocka_unit_test(chains_may_be_long),
		cmocka_unit_test(random_graphs_are_folded_as_by_all_pairs),
		cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
