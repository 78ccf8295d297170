/* SPDX-License-Identifier: MIT */
/* Tables: grouping, measures, filters, order, several processes, differences, totals. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <string.h>

#include "analysis/table.h"
#include "base/alloc.h"
#include "core/cc.h"
#include "model/profile.h"
#include "support/profile_fixture.h"

#define SECOND 1000000000ull
#define MIB 1048576ull

struct env {
	struct mt_profile *p;
	const struct mt_profile *list[2];
	struct mt_query q;
	struct mt_table *t;
};

static struct env env;

static int setup(void **state)
{
	struct fixture_options o = {.build_id = 7};

	env = (struct env){.p = fixture_profile(&o)};
	env.list[0] = env.p;
	env.q = (struct mt_query){.names = &fixture_names};
	return 0;
}

static int teardown(void **state)
{
	mt_table_free(env.t);
	mt_profile_free(env.p);
	return 0;
}

static void build(void)
{
	mt_table_free(env.t);
	env.t = NULL;
	assert_int_equal(mt_table_build(env.list, env.list[1] ? 2 : 1, &env.q, &env.t), 0);
}

static const struct mt_row *find(const char *label)
{
	for (uint32_t i = 0; i < env.t->row_count; i++)
		if (env.t->row[i].label && !strcmp(env.t->row[i].label, label))
			return &env.t->row[i];
	return NULL;
}

static void live_sites_are_sorted_by_bytes(void **state)
{
	build();
	assert_int_equal(env.t->row_count, 3);
	assert_int_equal(env.t->row[0].bytes, 4 * MIB);
	assert_int_equal(env.t->row[0].count, 4);
	assert_int_equal(env.t->row[1].bytes, 5000);
	assert_int_equal(env.t->row[2].bytes, 100);
	assert_int_equal(env.t->bytes, 4 * MIB + 5100);
	assert_int_equal(env.t->count, 15);
}

static void other_heaps_have_their_own_table(void **state)
{
	env.q.heap = 1;
	build();
	assert_int_equal(env.t->row_count, 1);
	assert_int_equal(env.t->row[0].bytes, 65536);
	env.q.heap = MT_HEAP_ANY;
	build();
	assert_int_equal(env.t->row_count, 4);
}

static void labels_keep_equal_stacks_apart(void **state)
{
	env.q.measure = MT_MEASURE_TOTAL;
	build();
	assert_int_equal(env.t->row_count, 4);
	assert_int_equal(env.t->row[2].bytes, 300);
	assert_int_equal(env.t->row[3].bytes, 100);
	assert_int_equal(env.t->row[2].hash, env.t->row[3].hash);
}

static void functions_add_up_over_callers(void **state)
{
	env.q.by = MT_BY_FUNCTION;
	env.q.measure = MT_MEASURE_TOTAL;
	build();
	assert_non_null(find("parse"));
	assert_int_equal(find("parse")->bytes, 300 + 5000 + 100);
	assert_int_equal(find("parse")->site_count, 3);
	/* the innermost inlined function made the call */
	assert_non_null(find("read_all"));
	/* the heaviest site is the example */
	assert_int_equal(find("parse")->site, 3);
}

static void modules_take_the_program_frame_not_memtrack(void **state)
{
	env.q.by = MT_BY_MODULE;
	build();
	assert_int_equal(env.t->row_count, 1);
	assert_string_equal(env.t->row[0].label, "/opt/app/server");
	assert_int_equal(env.t->row[0].bytes, 4 * MIB + 5100);
}

static void threads_sum_their_own_blocks(void **state)
{
	env.q.by = MT_BY_THREAD;
	build();
	assert_int_equal(env.t->row_count, 2);
	assert_string_equal(env.t->row[0].label, "main (thread 100 of process 100)");
	assert_int_equal(env.t->row[0].bytes, 4 * MIB + 100);
	assert_int_equal(env.t->row[1].bytes, 5000);
	assert_int_equal(env.t->row[1].allocs, 10);
}

static void sizes_are_powers_of_two(void **state)
{
	env.q.by = MT_BY_SIZE;
	build();
	assert_int_equal(env.t->row_count, 3);
	assert_non_null(find("256..511"));
	assert_int_equal(find("256..511")->count, 10);
	assert_int_equal(find("1048576..2097151")->bytes, 4 * MIB);
	env.q.measure = MT_MEASURE_TOTAL;
	build();
	assert_int_equal(find("64..127")->count, 3);
}

static void heaps_and_labels_group(void **state)
{
	env.q.by = MT_BY_HEAP;
	env.q.heap = MT_HEAP_ANY;
	build();
	assert_int_equal(find("mmap")->bytes, 65536);
	assert_int_equal(find("malloc")->count, 15);
	env.q.by = MT_BY_LABEL;
	env.q.measure = MT_MEASURE_TOTAL;
	build();
	assert_int_equal(find("boot")->bytes, 100);
}

static void young_blocks_do_not_count(void **state)
{
	env.q.min_age_ns = 5 * SECOND;
	build();
	assert_int_equal(env.t->row_count, 2);
	assert_int_equal(env.t->row[0].count, 2);
	assert_int_equal(env.t->row[0].newest_age_ns, 7 * SECOND);
	assert_int_equal(env.t->row[0].oldest_age_ns, 9 * SECOND);
}

static void peak_uses_what_was_live_then(void **state)
{
	env.q.measure = MT_MEASURE_PEAK;
	build();
	assert_int_equal(env.t->row[2].bytes, 300 - 100);
	env.q.by = MT_BY_SIZE;
	assert_int_equal(mt_table_build(env.list, 1, &env.q, &(struct mt_table *){NULL}), -EINVAL);
	env.q.by = MT_BY_THREAD;
	assert_int_equal(mt_table_build(env.list, 1, &env.q, &(struct mt_table *){NULL}), -EINVAL);
}

static void temporaries_count_without_bytes(void **state)
{
	env.q.measure = MT_MEASURE_TEMPORARY;
	build();
	assert_int_equal(env.t->row_count, 1);
	assert_int_equal(env.t->row[0].count, 2);
	assert_int_equal(env.t->bytes, 0);
}

static void large_takes_blocks_from_one_mebibyte(void **state)
{
	env.q.measure = MT_MEASURE_LARGE;
	build();
	assert_int_equal(env.t->row_count, 1);
	assert_int_equal(env.t->row[0].count, 4);
	env.p->block[0].size = MIB - 1;
	build();
	assert_int_equal(env.t->row[0].count, 3);
}

static void growth_needs_blocks_from_every_quarter(void **state)
{
	build();
	assert_false(env.t->row[0].is_growing); /* only four blocks */
	env.q.sort = MT_SORT_GROWTH;
	build();
	assert_int_equal(env.t->row[0].recent_bytes, 2 * MIB);
	/* ten blocks of site 3, all from the last second: no growth */
	assert_false(env.t->row[1].is_growing);
	for (uint64_t i = 0; i < env.p->blocks; i++)
		if (env.p->block[i].cell == 3)
			env.p->block[i].born =
				(uint32_t)(i * SECOND * 10 / env.p->blocks / UNIT_NS);
	env.p->block[5].born = 0;
	env.p->block[6].born = (uint32_t)(SECOND / UNIT_NS);
	build();
	assert_true(env.t->row[1].is_growing);
}

static void sort_by_age_and_count(void **state)
{
	env.q.sort = MT_SORT_AGE;
	build();
	assert_int_equal(env.t->row[0].oldest_age_ns, 9 * SECOND);
	assert_int_equal(env.t->row[2].oldest_age_ns, SECOND);
	env.q.sort = MT_SORT_COUNT;
	build();
	assert_int_equal(env.t->row[0].count, 10);
}

static void unplaced_allocations_have_a_row(void **state)
{
	env.p->thread[1].unplaced_allocs = 5;
	env.p->thread[1].unplaced_bytes = 50;
	env.p->block[0].cell = 0;
	build();
	assert_non_null(find("(site not recorded: left out by options, or tables were full)"));
	assert_int_equal(
		find("(site not recorded: left out by options, or tables were full)")->bytes, MIB);
	assert_int_equal(
		find("(site not recorded: left out by options, or tables were full)")->allocs, 5);
	assert_int_equal(env.t->bytes, 4 * MIB + 5100);
}

static bool suppress_site_1(void *context, const struct mt_profile *p, uint32_t site)
{
	return site == *(const uint32_t *)context;
}

static void suppressed_sites_are_counted_apart(void **state)
{
	uint32_t site = 1;

	env.q.is_suppressed = suppress_site_1;
	env.q.suppress_context = &site;
	build();
	assert_int_equal(env.t->bytes, 5100);
	assert_int_equal(env.t->suppressed_sites, 1);
	assert_int_equal(env.t->suppressed_count, 4);
	assert_int_equal(env.t->suppressed_bytes, 4 * MIB);
}

static void processes_of_one_program_add_up(void **state)
{
	struct fixture_options o = {.build_id = 7, .pid = 200, .slide = 0x30000};
	struct mt_profile *other = fixture_profile(&o);
	struct mt_totals totals;

	env.list[1] = other;
	build();
	assert_int_equal(env.t->row_count, 3);
	assert_int_equal(env.t->row[0].bytes, 8 * MIB);
	assert_int_equal(env.t->row[0].site_count, 2);
	mt_totals_sum(env.list, 2, &totals);
	assert_int_equal(totals.allocs, 2 * env.p->totals.allocs);
	assert_int_equal(totals.size_hist[21], 8);
	assert_int_equal(totals.size_hist[17], 0); /* another heap */
	assert_int_equal(totals.life_unit_ns, 1000000);
	assert_true(totals.is_exact);
	other->lost[3] = 1;
	other->time_resolution_ns = 5;
	mt_totals_sum(env.list, 2, &totals);
	assert_false(totals.is_exact);
	assert_int_equal(totals.life_unit_ns, 0);
	mt_profile_free(other);
}

static void events_inside_the_tracker_are_counted_as_lost(void **state)
{
	struct mt_totals totals;

	env.p->lost[0] = 5;
	env.p->thread[1].nested_allocs = 30;
	env.p->thread[2].nested_frees = 4;
	mt_totals_sum(env.list, 1, &totals);
	assert_int_equal(totals.lost[0], 39);
	assert_false(totals.is_exact);
}

static void modules_can_be_chosen(void **state)
{
	env.q.modules = "server";
	build();
	assert_int_equal(env.t->row_count, 3);
	env.q.modules = "-ser*";
	build();
	assert_int_equal(env.t->row_count, 0);
	env.q.modules = "/opt/app/*,-/opt/app/server";
	build();
	assert_int_equal(env.t->row_count, 0);
	env.q.modules = "-*,+server";
	build();
	assert_int_equal(env.t->row_count, 3);
	env.q.modules = "libpool*";
	build();
	assert_int_equal(env.t->row_count, 0);
	/* the call of site 3 is in the program; put it into the library */
	env.p->node[7].module = 2;
	build();
	assert_int_equal(env.t->row_count, 1);
	assert_int_equal(env.t->bytes, 5000);
	env.q.by = MT_BY_SIZE;
	build();
	assert_int_equal(env.t->bytes, 5000);
}

static void rows_below_a_threshold_are_summed(void **state)
{
	struct mt_small_rows small;

	build();
	small = mt_table_below(env.t, 5000);
	assert_int_equal(small.rows, 1);
	assert_int_equal(small.count, 1);
	assert_int_equal(small.bytes, 100);
	assert_int_equal(mt_table_below(env.t, 5001).rows, 2);
	assert_int_equal(mt_table_below(env.t, 0).rows, 0);
}

static void stop_gives_a_partial_table(void **state)
{
	volatile int stop = 1;

	env.q.stop = &stop;
	build();
	assert_true(env.t->is_partial);
	assert_int_equal(env.t->row_count, 0);
}

static void diff_matches_rows_of_two_runs(void **state)
{
	struct fixture_options o = {.build_id = 7, .slide = 0x9000, .extra_bytes = 30};
	struct mt_profile *later = fixture_profile(&o);
	struct mt_table *now;
	struct mt_diff *d;

	build();
	env.list[0] = later;
	assert_int_equal(mt_table_build(env.list, 1, &env.q, &now), 0);
	assert_int_equal(mt_diff_build(env.t, now, &d), 0);
	assert_int_equal(d->row_count, 3);
	assert_int_equal(d->bytes, 300);
	assert_int_equal(d->grown, 1);
	assert_int_equal(d->shrunk, 0);
	assert_int_equal(d->row[0].bytes, 300);
	assert_int_equal(d->row[0].old_row->bytes, 5000);
	assert_int_equal(d->row[0].new_row->bytes, 5300);
	assert_true(mt_diff_same_build(env.p, later));
	mt_diff_free(d);
	mt_table_free(now);
	mt_profile_free(later);
}

static void diff_shows_new_and_gone_rows(void **state)
{
	struct fixture_options o = {.build_id = 8};
	struct mt_profile *rebuilt = fixture_profile(&o);
	struct mt_table *now;
	struct mt_diff *d;

	build();
	env.list[0] = rebuilt;
	assert_int_equal(mt_table_build(env.list, 1, &env.q, &now), 0);
	assert_int_equal(mt_diff_build(env.t, now, &d), 0);
	assert_false(mt_diff_same_build(env.p, rebuilt));
	assert_int_equal(d->row_count, 6);
	assert_int_equal(d->bytes, 0);
	/* growth comes before the shrinkage of the same size */
	assert_int_equal(d->row[0].bytes, 4 * (int64_t)MIB);
	assert_null(d->row[0].old_row);
	assert_int_equal(d->row[1].bytes, -4 * (int64_t)MIB);
	assert_null(d->row[1].new_row);
	mt_diff_free(d);
	mt_table_free(now);

	/* by names the builds match */
	env.q.match_names = true;
	assert_int_equal(mt_table_build(env.list, 1, &env.q, &now), 0);
	env.list[0] = env.p;
	build();
	assert_int_equal(mt_diff_build(env.t, now, &d), 0);
	assert_int_equal(d->row_count, 3);
	assert_int_equal(d->grown + d->shrunk, 0);
	mt_diff_free(d);
	mt_table_free(now);
	mt_profile_free(rebuilt);
}

static void every_failed_allocation_is_reported(void **state)
{
	static const enum mt_by by[] = {MT_BY_SITE, MT_BY_FUNCTION, MT_BY_THREAD, MT_BY_SIZE};

	for (size_t i = 0; i < MT_ARRAY_LEN(by); i++) {
		int code = -ENOMEM;

		env.q.by = by[i];
		for (size_t nth = 1; code == -ENOMEM; nth++) {
			struct mt_table *t = NULL;

			mt_alloc_fail_from_for_test(nth);
			code = mt_table_build(env.list, 1, &env.q, &t);
			mt_alloc_fail_from_for_test(0);
			mt_table_free(t);
			assert_true(nth < 100);
		}
		assert_int_equal(code, 0);
	}
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
	const struct CMUnitTest tests[] = {
		TEST(live_sites_are_sorted_by_bytes),
		TEST(other_heaps_have_their_own_table),
		TEST(labels_keep_equal_stacks_apart),
		TEST(functions_add_up_over_callers),
		TEST(modules_take_the_program_frame_not_memtrack),
		TEST(threads_sum_their_own_blocks),
		TEST(sizes_are_powers_of_two),
		TEST(heaps_and_labels_group),
		TEST(young_blocks_do_not_count),
		TEST(peak_uses_what_was_live_then),
		TEST(temporaries_count_without_bytes),
		TEST(large_takes_blocks_from_one_mebibyte),
		TEST(growth_needs_blocks_from_every_quarter),
		TEST(sort_by_age_and_count),
		TEST(unplaced_allocations_have_a_row),
		TEST(suppressed_sites_are_counted_apart),
		TEST(processes_of_one_program_add_up),
		TEST(events_inside_the_tracker_are_counted_as_lost),
		TEST(modules_can_be_chosen),
		TEST(rows_below_a_threshold_are_summed),
		TEST(stop_gives_a_partial_table),
		TEST(diff_matches_rows_of_two_runs),
		TEST(diff_shows_new_and_gone_rows),
		TEST(every_failed_allocation_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
