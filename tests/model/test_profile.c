/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "model/profile.h"

static void new_profile_is_empty_and_has_element_zero(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = mt_profile_new();
	assert_string_equal(p->exe, "");
	assert_string_equal(p->cmdline, "");
	assert_string_equal(p->module[0].path, "");
	assert_string_equal(p->label[0], "");
	assert_string_equal(p->heap[0].name, "malloc");
	assert_int_equal(p->site_count, 1);
	assert_int_equal(p->site[0].counts.allocs, 0);
	assert_int_equal(p->blocks, 0);
	assert_int_equal(p->warning_count, 0);
	assert_int_equal(mt_profile_check(p, 0), 0);
	mt_profile_free(NULL);
}

static void every_allocation_of_a_new_profile_may_fail(void **state)
{
	struct mt_profile *p = NULL;
	size_t n = 1;
	for (; !p; n++) {
		mt_alloc_fail_from_for_test(n);
		p = mt_profile_new();
		mt_alloc_fail_from_for_test(0);
	}
	assert_true(n > 2);
	mt_profile_free(p);
}

/* Nodes: 0 root, then a chain of `count`. */
static struct mt_profile *make_chain(uint32_t count)
{
	struct mt_profile *p = mt_profile_new();
	p->node_count = count + 1;
	p->node = mt_arena_array(p->arena, p->node_count, sizeof(*p->node));
	for (uint32_t i = 1; i <= count; i++) {
		p->node[i].parent = i - 1;
		p->node[i].depth = (uint16_t)i;
	}
	return p;
}

static void stack_goes_from_the_innermost_frame_out(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = make_chain(5);
	uint32_t nodes[8] = {99, 99, 99, 99, 99, 99};
	assert_int_equal(mt_profile_stack(p, 5, nodes, 8), 5);
	for (uint32_t i = 0; i < 5; i++)
		assert_int_equal(nodes[i], 5 - i);
	assert_int_equal(nodes[5], 99);
	assert_int_equal(mt_profile_stack(p, 5, nodes, 2), 2);
	assert_int_equal(mt_profile_stack(p, 0, nodes, 8), 0);
	assert_int_equal(mt_profile_stack(p, 6, nodes, 8), 0);
}

static void stack_ends_in_a_wrong_table_too(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = make_chain(3);
	uint32_t nodes[8];
	p->node[1].parent = 3; /* a circle */
	assert_int_equal(mt_profile_stack(p, 3, nodes, 8), 3);
	p->node[2].parent = 1000;
	assert_int_equal(mt_profile_stack(p, 3, nodes, 8), 2);
}

static void warnings_are_kept_in_order_and_bounded(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = mt_profile_new();
	for (int i = 0; i < MT_PROFILE_WARNINGS_MAX + 7; i++)
		mt_profile_warn(p, "warning %d", i);
	assert_int_equal(p->warning_count, MT_PROFILE_WARNINGS_MAX);
	assert_int_equal(p->warnings_dropped, 7);
	assert_string_equal(p->warning[0], "warning 0");
	assert_string_equal(p->warning[99], "warning 99");
}

/* One thread with one cell at one site: 10 allocations of 8 bytes, 4 frees, 6 blocks live. */
static struct mt_profile *make_small(void)
{
	struct mt_profile *p = mt_profile_new();
	const struct mt_profile_counts counts = {10, 4, 80, 32, 0};
	p->site_count = p->cell_count = p->thread_count = 2;
	p->site = mt_arena_array(p->arena, 2, sizeof(*p->site));
	p->cell = mt_arena_array(p->arena, 2, sizeof(*p->cell));
	p->thread = mt_arena_array(p->arena, 2, sizeof(*p->thread));
	p->site[1].counts = counts;
	p->cell[1] = (struct mt_profile_cell){.site = 1, .thread = 1, .counts = counts};
	p->thread[1].heap[0] = p->totals = counts;
	p->live_count = p->block_count = 6;
	p->live_bytes = p->block_bytes = 48;
	return p;
}

static void check_is_silent_when_tables_agree(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = make_small();
	assert_int_equal(mt_profile_check(p, 0), 0);
	assert_int_equal(p->warning_count, 0);
}

static void check_names_each_difference(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = make_small();
	p->cell[1].counts.allocs = 12;
	p->cell[1].counts.frees = 1;
	p->block_count = 9;
	assert_int_equal(mt_profile_check(p, 0), 3);
	assert_string_equal(p->warning[0], "the sites hold 12 allocations, the threads counted 10");
	assert_string_equal(p->warning[1], "the sites hold 1 frees, the threads counted 4");
	assert_string_equal(p->warning[2],
			    "the block table holds 9 live blocks, by the counters it is 6");
}

static void check_compares_bytes_when_counts_agree(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = make_small();
	p->cell[1].counts.bytes = 81;
	p->cell[1].counts.freed_bytes = 33;
	p->block_bytes = 47;
	assert_int_equal(mt_profile_check(p, 0), 3);
	assert_string_equal(p->warning[0],
			    "the sites hold 81 allocated bytes, the threads counted 80");
	assert_string_equal(p->warning[2],
			    "the block table holds 47 live bytes, by the counters it is 48");
}

static void check_allows_for_events_in_flight(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = make_small();
	p->cell[1].counts.allocs = 12;
	p->block_count = 4;
	assert_int_equal(mt_profile_check(p, 2), 0);
	p->cell[1].counts.allocs = 13;
	assert_int_equal(mt_profile_check(p, 2), 1);
}

static void check_allows_for_what_did_not_fit(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = make_small();
	p->cell[1].counts.allocs = 9;
	p->cell[1].counts.bytes = 72;
	assert_int_equal(mt_profile_check(p, 0), 1);
	p->thread[1].unplaced_allocs = 1;
	p->thread[1].unplaced_bytes = 8;
	assert_int_equal(mt_profile_check(p, 0), 0);
	p->thread[1].unplaced_allocs = p->thread[1].unplaced_bytes = 0;
	p->thread[1].filtered_allocs = 1; /* left out by an option: the same */
	p->thread[1].filtered_bytes = 8;
	assert_int_equal(mt_profile_check(p, 0), 0);
	p->block_count = 5;
	p->block_bytes = 40;
	assert_int_equal(mt_profile_check(p, 0), 1);
	p->thread[1].untracked_allocs = 1;
	p->thread[1].untracked_bytes = 8;
	assert_int_equal(mt_profile_check(p, 0), 0);
	p->block_count = 4;
	p->block_bytes = 32;
	p->thread[1].nested_frees = 1;
	assert_int_equal(mt_profile_check(p, 0), 0);
}

static void check_leaves_other_heaps_out(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = make_small();
	p->site[1].heap = 1;
	assert_int_equal(mt_profile_check(p, 0), 2); /* the malloc heap has no site now */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_profile_is_empty_and_has_element_zero),
		cmocka_unit_test(every_allocation_of_a_new_profile_may_fail),
		cmocka_unit_test(stack_goes_from_the_innermost_frame_out),
		cmocka_unit_test(stack_ends_in_a_wrong_table_too),
		cmocka_unit_test(warnings_are_kept_in_order_and_bounded),
		cmocka_unit_test(check_is_silent_when_tables_agree),
		cmocka_unit_test(check_names_each_difference),
		cmocka_unit_test(check_compares_bytes_when_counts_agree),
		cmocka_unit_test(check_allows_for_events_in_flight),
		cmocka_unit_test(check_allows_for_what_did_not_fit),
		cmocka_unit_test(check_leaves_other_heaps_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
