/* SPDX-License-Identifier: MIT */
/* callstack_hash: the same in every run, different for different stacks. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/callstack.h"
#include "base/alloc.h"
#include "model/profile.h"
#include "support/profile_fixture.h"

static uint64_t hash_of(const struct fixture_options *o, uint32_t site,
			const struct mt_names *names)
{
	struct mt_profile *p = fixture_profile(o);
	uint64_t *hash = mt_callstack_hashes(p, names);
	uint64_t h = hash[mt_callstack_top(p, fixture_node(p, site))];

	free(hash);
	mt_profile_free(p);
	return h;
}

static void hash_is_the_same_at_other_addresses(void **state)
{
	struct fixture_options here = {.build_id = 7}, there = {.build_id = 7, .slide = 0x5555000};

	for (uint32_t site = 1; site <= 5; site++)
		assert_int_equal(hash_of(&here, site, NULL), hash_of(&there, site, NULL));
}

static void hash_is_the_same_without_build_ids(void **state)
{
	struct fixture_options here = {0}, there = {.slide = 0x7000};

	assert_int_equal(hash_of(&here, 3, NULL), hash_of(&there, 3, NULL));
}

static void hash_has_known_values(void **state)
{
	/* scripts keep these: a change of the algorithm is a change of the output format */
	struct fixture_options o = {.build_id = 7};

	assert_int_equal(hash_of(&o, 2, NULL), 0xab8b061bc42e3ce2);
	assert_int_equal(hash_of(&o, 3, NULL), 0xb5fc621aa2bb4115);
}

static void hash_differs_between_stacks(void **state)
{
	struct fixture_options o = {.build_id = 7};

	assert_int_not_equal(hash_of(&o, 1, NULL), hash_of(&o, 2, NULL));
	/* the same innermost frame below another caller */
	assert_int_not_equal(hash_of(&o, 2, NULL), hash_of(&o, 3, NULL));
}

static void hash_differs_between_builds(void **state)
{
	struct fixture_options a = {.build_id = 7}, b = {.build_id = 8};

	assert_int_not_equal(hash_of(&a, 2, NULL), hash_of(&b, 2, NULL));
}

static void build_id_counts_and_path_does_not(void **state)
{
	struct fixture_options a = {.build_id = 7},
			       b = {.build_id = 7, .program = "/elsewhere/server"};
	struct fixture_options c = {0}, d = {.program = "/elsewhere/server"};

	assert_int_equal(hash_of(&a, 2, NULL), hash_of(&b, 2, NULL));
	assert_int_not_equal(hash_of(&c, 2, NULL), hash_of(&d, 2, NULL));
}

static void hash_by_names_is_the_same_in_two_builds(void **state)
{
	struct fixture_options a = {.build_id = 7}, b = {.build_id = 8, .slide = 0x1000};

	assert_int_equal(hash_of(&a, 1, &fixture_names), hash_of(&b, 1, &fixture_names));
	assert_int_not_equal(hash_of(&a, 1, &fixture_names), hash_of(&a, 2, &fixture_names));
}

static void frames_of_memtrack_on_top_are_skipped(void **state)
{
	struct fixture_options o = {0};
	struct mt_profile *p = fixture_profile(&o);
	uint32_t node = fixture_node(p, 1);

	assert_true(p->module[p->node[node].module].is_self);
	assert_int_equal(mt_callstack_top(p, node), p->node[node].parent);
	mt_profile_free(p);
}

static void source_frames_hash_by_file_and_line(void **state)
{
	struct fixture_options o = {0};
	struct mt_profile *p = fixture_profile(&o);
	uint64_t *hash;
	uint64_t first;

	p->node[9] = (struct mt_profile_node){.parent = 1,
					      .depth = 1,
					      .kind = MT_FRAME_SOURCE,
					      .source_file = "a.c",
					      .source_line = 5};
	hash = mt_callstack_hashes(p, NULL);
	first = hash[9];
	free(hash);
	p->node[9].source_line = 6;
	hash = mt_callstack_hashes(p, NULL);
	assert_int_not_equal(hash[9], first);
	free(hash);
	mt_profile_free(p);
}

static void a_cycle_in_a_damaged_tree_ends(void **state)
{
	struct fixture_options o = {0};
	struct mt_profile *p = fixture_profile(&o);
	uint64_t *hash;

	p->node[2].parent = 5;
	hash = mt_callstack_hashes(p, NULL);
	assert_non_null(hash);
	free(hash);
	mt_profile_free(p);
}

static void failed_allocations_give_null(void **state)
{
	struct fixture_options o = {0};
	struct mt_profile *p = fixture_profile(&o);

	for (size_t nth = 1; nth <= 3; nth++) {
		mt_alloc_fail_from_for_test(nth);
		assert_null(mt_callstack_hashes(p, NULL));
	}
	mt_alloc_fail_from_for_test(0);
	mt_profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(hash_is_the_same_at_other_addresses),
		cmocka_unit_test(hash_is_the_same_without_build_ids),
		cmocka_unit_test(hash_has_known_values),
		cmocka_unit_test(hash_differs_between_stacks),
		cmocka_unit_test(hash_differs_between_builds),
		cmocka_unit_test(build_id_counts_and_path_does_not),
		cmocka_unit_test(hash_by_names_is_the_same_in_two_builds),
		cmocka_unit_test(frames_of_memtrack_on_top_are_skipped),
		cmocka_unit_test(source_frames_hash_by_file_and_line),
		cmocka_unit_test(a_cycle_in_a_damaged_tree_ends),
		cmocka_unit_test(failed_allocations_give_null),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
