/* SPDX-License-Identifier: MIT */
/* How call stacks end, by allocations, and where those stop that do not reach the entry. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/ends.h"
#include "model/profile.h"
#include "support/profile_fixture.h"

/* The fixture's sites 1 to 5 have these nodes: 4, 5, 7, ..; node 2 is main's, 6 the thread's. */
static void end_below(struct mt_profile *p, uint32_t outermost, uint32_t end)
{
	for (uint32_t i = 2; i < p->node_count; i++) {
		uint32_t at = i;

		while (p->node[at].depth > 1)
			at = p->node[at].parent;
		if (at == outermost && p->node[i].depth)
			p->node[i].end = (uint8_t)end;
	}
}

static uint64_t allocs_below(const struct mt_profile *p, uint32_t outermost)
{
	uint64_t allocs = 0;

	for (uint32_t i = 1; i < p->site_count; i++) {
		uint32_t at = p->site[i].node;

		while (p->node[at].depth > 1)
			at = p->node[at].parent;
		if (at == outermost && p->site[i].call)
			allocs += p->site[i].counts.allocs;
	}
	return allocs;
}

enum { MAIN = 2, WORKER = 6 };

static struct mt_profile *fixture(void)
{
	const struct fixture_options o = {.build_id = 7};
	struct mt_profile *p = fixture_profile(&o);

	assert_true(allocs_below(p, MAIN) > 0);
	assert_int_equal(allocs_below(p, WORKER), 10);
	return p;
}

static struct mt_ends find(const struct mt_profile *p)
{
	struct mt_ends ends;

	assert_int_equal(mt_ends_find(&p, 1, NULL, &ends), 0);
	return ends;
}

static void every_allocation_counts_with_the_end_of_its_stack(void **state)
{
	struct mt_profile *p = fixture();

	end_below(p, WORKER, MT_PROFILE_END_DEPTH);
	struct mt_ends ends = find(p);

	assert_int_equal(ends.allocs[MT_PROFILE_END_COMPLETE], allocs_below(p, MAIN));
	assert_int_equal(ends.allocs[MT_PROFILE_END_DEPTH], 10);
	assert_int_equal(ends.all, allocs_below(p, MAIN) + 10);
	assert_int_equal(ends.by_fp, 0);
	assert_int_equal(ends.count, 0); /* a cut stack stops nowhere in particular */
	mt_ends_done(&ends);
	mt_profile_free(p);
}

static void stack_that_stops_names_its_outermost_function(void **state)
{
	struct mt_profile *p = fixture();

	end_below(p, WORKER, MT_PROFILE_END_NO_INFO);
	p->node[7].by_frame_pointer = true;
	struct mt_ends ends = find(p);

	assert_int_equal(ends.allocs[MT_PROFILE_END_NO_INFO], 10);
	assert_int_equal(ends.by_fp, 10);
	assert_int_equal(ends.count, 1);
	assert_int_equal(ends.at[0].allocs, 10);
	assert_int_equal(ends.at[0].sites, 1);
	assert_int_equal(ends.at[0].end, MT_PROFILE_END_NO_INFO);
	assert_string_equal(ends.at[0].module, "libpool.so.1");
	assert_string_equal(ends.at[0].function, "libpool.so.1+0x2000");
	mt_ends_done(&ends);
	mt_profile_free(p);
}

static void code_in_no_module_is_told_apart(void **state)
{
	struct mt_profile *p = fixture();

	end_below(p, WORKER, MT_PROFILE_END_NO_INFO);
	end_below(p, MAIN, MT_PROFILE_END_UNSUPPORTED);
	p->node[WORKER].module = 0;
	struct mt_ends ends = find(p);

	assert_int_equal(ends.allocs[MT_PROFILE_END_NO_INFO], 0);
	assert_int_equal(ends.allocs[MT_END_GENERATED], 10);
	assert_int_equal(ends.count, 2);
	for (size_t i = 0; i < 2; i++) {
		bool generated = ends.at[i].end == MT_END_GENERATED;

		assert_string_equal(ends.at[i].module, generated ? "" : "server");
		assert_int_equal(ends.at[i].allocs, generated ? 10 : allocs_below(p, MAIN));
	}
	mt_ends_done(&ends);
	mt_profile_free(p);
}

static void places_of_several_processes_come_together(void **state)
{
	struct mt_profile *p = fixture(), *q = fixture();
	const struct mt_profile *both[] = {p, q};
	struct mt_ends ends;

	end_below(p, WORKER, MT_PROFILE_END_UNREADABLE);
	end_below(q, WORKER, MT_PROFILE_END_UNREADABLE);
	assert_int_equal(mt_ends_find(both, 2, NULL, &ends), 0);
	assert_int_equal(ends.count, 1);
	assert_int_equal(ends.at[0].allocs, 20);
	assert_int_equal(ends.at[0].sites, 2);
	mt_ends_done(&ends);
	mt_profile_free(p);
	mt_profile_free(q);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_allocation_counts_with_the_end_of_its_stack),
		cmocka_unit_test(stack_that_stops_names_its_outermost_function),
		cmocka_unit_test(code_in_no_module_is_told_apart),
		cmocka_unit_test(places_of_several_processes_come_together),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
