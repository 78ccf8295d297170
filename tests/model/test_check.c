/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/arena.h"
#include "model/profile.h"

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

static void check_allows_for_blocks_without_a_stack_in_check_mode(void **state)
{
	mt_auto(mt_profile) struct mt_profile *p = make_small();
	p->cell[1].counts = (struct mt_profile_counts){0};
	assert_int_equal(mt_profile_check(p, 0), 2);
	p->mode = MT_PROFILE_MODE_CHECK;
	assert_int_equal(mt_profile_check(p, 0), 0);
	p->cell[1].counts.allocs = 11; /* more than there were is wrong there, too */
	assert_int_equal(mt_profile_check(p, 0), 1);
	p->cell[1].counts.allocs = 0;
	p->block_count = 5; /* all blocks are in the table */
	assert_int_equal(mt_profile_check(p, 0), 1);
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
		cmocka_unit_test(check_is_silent_when_tables_agree),
		cmocka_unit_test(check_names_each_difference),
		cmocka_unit_test(check_compares_bytes_when_counts_agree),
		cmocka_unit_test(check_allows_for_events_in_flight),
		cmocka_unit_test(check_allows_for_blocks_without_a_stack_in_check_mode),
		cmocka_unit_test(check_allows_for_what_did_not_fit),
		cmocka_unit_test(check_leaves_other_heaps_out),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
