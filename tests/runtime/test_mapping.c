/* SPDX-License-Identifier: MIT */
/* The set of mappings against an oracle that holds one byte a page. */
#include "fixture.h"

#include <string.h>

enum { PAGES = 400, STEPS = 30000, PAGE = 4096 };
static const uint64_t base = 0x7f0000000000u;

/* Page -> number of the call that mapped it last, 0: not mapped. */
static uint32_t page[PAGES];

static uint64_t at(uint32_t first)
{
	return base + (uint64_t)first * PAGE;
}

static void add(struct mt_thread *t, uint32_t first, uint32_t count, uint32_t call)
{
	struct mt_caller caller = fixture_caller(fixture_address(1, call % 50 + 1));
	mt_mapping_add(t, MT_HEAP_MMAP, at(first), (uint64_t)count * PAGE, MT_CALL_MMAP, &caller);
	for (uint32_t i = first; i < first + count; i++)
		page[i] = call;
}

static void take_away(struct mt_thread *t, uint32_t first, uint32_t count)
{
	mt_mapping_remove(t, at(first), (uint64_t)count * PAGE);
	memset(page + first, 0, count * sizeof(page[0]));
}

/* Every page is in one record exactly when the oracle has it, and under the right site. */
static void compare_with_oracle(void)
{
	uint8_t seen[PAGES] = {0};
	uint64_t bytes = 0;
	for (uint64_t i = 1; i < mt_rt.region[MT_REGION_LARGE]->used; i++) {
		const struct mt_state_large *l = &mt_rt.large[i];
		if (!l->place)
			continue;
		uint64_t pc = mt_rt.nodes[mt_rt.sites[mt_rt.cells[l->cell].site].node].pc;
		bytes += l->size;
		for (uint64_t a = l->place; a < l->place + l->size; a += PAGE) {
			uint32_t n = (uint32_t)((a - base) / PAGE);
			assert_in_range(n, 0, PAGES - 1);
			assert_false(seen[n]);
			seen[n] = 1;
			assert_true(page[n]);
			assert_true(pc == fixture_address(1, page[n] % 50 + 1));
		}
	}
	for (uint32_t n = 0; n < PAGES; n++)
		assert_int_equal(seen[n], page[n] != 0);
	const struct mt_state_totals *sum = &fixture_thread()->row->totals[MT_CLASS_MMAP];
	assert_true(sum->bytes - sum->freed_bytes == bytes);
}

static void random_calls_leave_what_the_oracle_has(void **state)
{
	struct mt_thread *t = fixture_thread();
	uint64_t seed = 20260101;
	memset(page, 0, sizeof(page));
	for (uint32_t step = 1; step <= STEPS; step++) {
		uint64_t r = fixture_random(&seed);
		uint32_t first = (uint32_t)(r % PAGES), count = (uint32_t)(r >> 20) % 20 + 1;
		if (r >> 40 & 7 && count > 3)
			count = 3;
		if (first + count > PAGES)
			count = PAGES - first;
		if (r >> 50 & 1)
			add(t, first, count, step);
		else
			take_away(t, first, count);
		if (step % 300 == 0)
			compare_with_oracle();
	}
	take_away(t, 0, PAGES);
	compare_with_oracle();
	assert_true(mt_rt.region[MT_REGION_LARGE]->used < PAGES + 2);
}

static void a_hole_makes_two_of_one(void **state)
{
	struct mt_thread *t = fixture_thread();
	memset(page, 0, sizeof(page));
	add(t, 10, 9, 1);
	take_away(t, 13, 2);
	compare_with_oracle();
	const struct mt_state_totals *sum = &t->row->totals[MT_CLASS_MMAP];
	assert_int_equal(sum->allocs, 1);
	assert_int_equal(sum->frees, 0);
	assert_int_equal(sum->freed_bytes, 2 * PAGE);
	take_away(t, 0, 100);
	compare_with_oracle();
	assert_int_equal(sum->freed_bytes, 9 * PAGE);
}

static void a_new_mapping_replaces_what_it_covers(void **state)
{
	struct mt_thread *t = fixture_thread();
	memset(page, 0, sizeof(page));
	add(t, 10, 5, 1);
	add(t, 12, 10, 2);
	add(t, 0, 30, 3);
	compare_with_oracle();
	assert_int_equal(t->row->totals[MT_CLASS_MMAP].frees, 2);
}

static void unknown_ranges_change_nothing(void **state)
{
	struct mt_thread *t = fixture_thread();
	memset(page, 0, sizeof(page));
	take_away(t, 0, 10);
	add(t, 10, 5, 1);
	take_away(t, 0, 10);
	take_away(t, 15, 50);
	mt_mapping_remove(t, at(12), 0);
	compare_with_oracle();
	assert_int_equal(t->row->totals[MT_CLASS_MMAP].freed_bytes, 0);
}

/* mremap moves a range away; meanwhile another thread maps memory at the old place. */
static void a_range_mapped_since_the_call_is_not_taken_for_the_one_that_moved(void **state)
{
	struct mt_thread *t = fixture_thread();
	memset(page, 0, sizeof(page));
	add(t, 10, 8, 1);
	uint32_t stamp = mt_mapping_stamp();
	add(t, 12, 2, 2); /* the other thread's, at the place that the kernel made free */
	mt_mapping_moved(t, at(10), 8 * PAGE, stamp);
	memset(page + 10, 0, 2 * sizeof(page[0]));
	memset(page + 14, 0, 4 * sizeof(page[0]));
	compare_with_oracle();
}

/* The other thread's mapping is smaller: what moved is gone as a whole, once. */
static void a_part_mapped_at_the_old_place_ends_the_whole_range(void **state)
{
	struct mt_thread *t = fixture_thread();
	memset(page, 0, sizeof(page));
	add(t, 10, 8, 1);
	uint32_t stamp = mt_mapping_stamp();
	assert_int_equal(mt_mapping_leaves(at(10), 8 * PAGE), 1);
	add(t, 12, 2, 2);
	assert_int_equal(t->row->totals[MT_CLASS_MMAP].frees, 1);
	mt_mapping_moved(t, at(10), 8 * PAGE, stamp);
	assert_int_equal(t->row->totals[MT_CLASS_MMAP].frees, 1);
	memset(page + 10, 0, 2 * sizeof(page[0]));
	memset(page + 14, 0, 4 * sizeof(page[0]));
	compare_with_oracle();
	assert_int_equal(mt_mapping_leaves(at(12), 2 * PAGE), 1);
	mt_mapping_stays(at(12), 2 * PAGE);
	take_away(t, 12, 1);
	compare_with_oracle();
}

static void only_a_known_range_moves(void **state)
{
	struct mt_thread *t = fixture_thread();
	memset(page, 0, sizeof(page));
	add(t, 10, 8, 1);
	assert_int_equal(mt_mapping_leaves(at(30), PAGE), 0);
	assert_int_equal(mt_mapping_leaves(at(10), PAGE), 1);
	assert_int_equal(mt_mapping_leaves(at(17), 0), 1);
	assert_int_equal(mt_mapping_leaves(at(18), 0), 0);
	compare_with_oracle();
}

static void a_break_is_a_heap_of_its_own(void **state)
{
	struct mt_thread *t = fixture_thread();
	struct mt_caller caller = fixture_caller(fixture_address(1, 1));
	mt_mapping_add(t, MT_HEAP_BRK, 0x5000, 100, MT_CALL_SBRK, &caller);
	mt_mapping_add(t, MT_HEAP_BRK, 0x5064, 50, MT_CALL_SBRK, &caller);
	mt_mapping_remove(t, 0x5078, 30);
	assert_int_equal(t->row->totals[MT_CLASS_BRK].bytes, 150);
	assert_int_equal(t->row->totals[MT_CLASS_BRK].freed_bytes, 30);
	assert_int_equal(t->row->totals[MT_CLASS_MMAP].allocs, 0);
}

#define WITH_TABLES(test) cmocka_unit_test_setup_teardown(test, fixture_setup, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_TABLES(random_calls_leave_what_the_oracle_has),
		WITH_TABLES(a_hole_makes_two_of_one),
		WITH_TABLES(a_new_mapping_replaces_what_it_covers),
		WITH_TABLES(unknown_ranges_change_nothing),
		WITH_TABLES(a_range_mapped_since_the_call_is_not_taken_for_the_one_that_moved),
		WITH_TABLES(a_part_mapped_at_the_old_place_ends_the_whole_range),
		WITH_TABLES(only_a_known_range_moves),
		WITH_TABLES(a_break_is_a_heap_of_its_own),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
