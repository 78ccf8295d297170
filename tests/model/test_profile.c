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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(new_profile_is_empty_and_has_element_zero),
		cmocka_unit_test(every_allocation_of_a_new_profile_may_fail),
		cmocka_unit_test(stack_goes_from_the_innermost_frame_out),
		cmocka_unit_test(stack_ends_in_a_wrong_table_too),
		cmocka_unit_test(warnings_are_kept_in_order_and_bounded),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
