/* SPDX-License-Identifier: MIT */
/* Trees of what is live: each way of grouping, both directions, two sides. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "analysis/tree.h"
#include "base/alloc.h"
#include "base/buf.h"
#include "model/records.h"
#include "support/profile_fixture.h"

static struct mt_tree make(const struct mt_profile *p, const struct mt_profile *old_p,
			   enum mt_tree_by by, bool reverse)
{
	struct mt_tree_query q = {.by = by, .reverse = reverse, .names = &fixture_names};
	struct mt_tree t = {0};

	assert_int_equal(mt_tree_make(p, old_p, &q, &t), 0);
	return t;
}

static void add_rows(const struct mt_tree *t, uint32_t at, struct mt_buf *out)
{
	const struct mt_tree_node *n = &t->node[at];

	mt_buf_printf(out, "%*s", (int)n->depth, "");
	if (n->kind == MT_TREE_SIZE_ROW)
		mt_buf_printf(out, "%" PRIu64, n->size);
	else if (n->kind == MT_TREE_LIBRARY_ROW)
		mt_buf_adds(out, n->library ? n->library : "?");
	else
		mt_buf_adds(out, n->kind == MT_TREE_ROOT ? "all" : n->function);
	if (t->has_old)
		mt_buf_printf(out, " %" PRIu64 "/%" PRIu64 "\n", n->sum[1].bytes, n->sum[0].bytes);
	else
		mt_buf_printf(out, " %" PRIu64 "/%" PRIu64 "\n", n->sum[0].bytes, n->sum[0].count);
	for (uint32_t i = 0; i < n->count; i++)
		add_rows(t, t->order[n->first + i], out);
}

static void assert_rows(struct mt_tree *t, const char *wanted)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	for (uint32_t i = 0; i < t->roots; i++)
		add_rows(t, i, &out);
	assert_string_equal(mt_buf_text(&out), wanted);
	mt_tree_done(t);
}

static void callers_begin_at_the_entry_and_leave_the_tracker_out(void **state)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	struct mt_tree t = make(p, NULL, MT_TREE_CALLERS, false);

	assert_rows(&t, "all 4199404/15\n"
			" main 4194404/5\n"
			"  load 4194304/4\n"
			"   read_all 4194304/4\n" /* inlined */
			"  parse 100/1\n"
			" worker 5000/10\n"
			"  parse 5000/10\n");
	mt_profile_free(p);
}

static void callees_are_the_other_direction(void **state)
{
	static const char wanted[] = "all 4199404/15\n"
				     " read_all 4194304/4\n" /* inlined */
				     "  load 4194304/4\n"
				     "   main 4194304/4\n"
				     " parse 5100/11\n"
				     "  worker 5000/10\n"
				     "  main 100/1\n";
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	struct mt_tree a = make(p, NULL, MT_TREE_CALLEES, false);
	struct mt_tree b = make(p, NULL, MT_TREE_CALLERS, true);

	assert_rows(&a, wanted);
	assert_rows(&b, wanted);
	mt_profile_free(p);
}

static void functions_put_their_call_sites_together(void **state)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	struct mt_tree t;

	/* another place in the same function */
	p->node[fixture_node(p, 3)].pc += 8;
	t = make(p, NULL, MT_TREE_CALLEES, false);
	assert_int_equal(t.node[0].count, 3);
	mt_tree_done(&t);
	t = make(p, NULL, MT_TREE_FUNCTION, false);
	for (uint32_t i = 0; i < t.count; i++)
		if (t.node[i].function && !strcmp(t.node[i].function, "parse"))
			assert_int_equal(t.node[i].address, 0); /* not one place */
	assert_rows(&t, "all 4199404/15\n"
			" read_all 4194304/4\n"
			"  load 4194304/4\n"
			"   main 4194304/4\n"
			" parse 5100/11\n"
			"  worker 5000/10\n"
			"  main 100/1\n");
	mt_profile_free(p);
}

static void neighbours_of_one_library_are_one(void **state)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	struct mt_tree t = make(p, NULL, MT_TREE_LIBRARY, false);

	assert_rows(&t, "all 4199404/15\n"
			" /opt/app/server 4199404/15\n"
			"  /usr/lib/libpool.so.1 5000/10\n");
	mt_profile_free(p);
}

static void sizes_stand_above_their_places(void **state)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	struct mt_tree t = make(p, NULL, MT_TREE_SIZE, false);

	assert_rows(&t, "all 4199404/15\n"
			" 1048576 4194304/4\n"
			"  read_all 4194304/4\n"
			"   load 4194304/4\n"
			"    main 4194304/4\n"
			" 500 5000/10\n"
			"  parse 5000/10\n"
			"   worker 5000/10\n"
			" 100 100/1\n"
			"  parse 100/1\n"
			"   main 100/1\n");
	mt_profile_free(p);
}

static void two_runs_at_other_addresses_show_what_changed(void **state)
{
	struct mt_profile *old_p = fixture_profile(&(struct fixture_options){0});
	struct mt_profile *p = fixture_profile(&(struct fixture_options){
		.slide = 0x7000, .pid = 7, .extra_bytes = 50, .program = "/opt/new/server"});
	struct mt_tree t = make(p, old_p, MT_TREE_CALLERS, false);

	assert_int_equal(t.sum[MT_TREE_OLD].bytes, 4199404);
	assert_int_equal(t.sum[MT_TREE_NEW].bytes, 4199904);
	assert_rows(&t, "all 4199404/4199904\n"
			" worker 5000/5500\n"
			"  parse 5000/5500\n");
	mt_profile_free(old_p);
	mt_profile_free(p);
}

static void what_is_gone_is_shown_too(void **state)
{
	struct mt_profile *old_p = fixture_profile(&(struct fixture_options){0});
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	struct mt_tree t;

	p->blocks = 4; /* those of the first site */
	t = make(p, old_p, MT_TREE_CALLEES, false);
	assert_rows(&t, "all 4199404/4194304\n"
			" parse 5100/0\n"
			"  worker 5000/0\n"
			"  main 100/0\n");
	mt_profile_free(old_p);
	mt_profile_free(p);
}

static void records_are_sums_by_site_and_size(void **state)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	mt_auto(mt_records) struct mt_records r = {0};

	assert_int_equal(mt_records_make(p, &r), 0);
	assert_int_equal(r.count, 3); /* the mapping is not of the malloc family */
	assert_int_equal(r.record[0].size, 1048576);
	assert_int_equal(r.record[0].count, 4);
	assert_int_equal(r.record[2].site, 3);
	assert_int_equal(r.record[2].count, 10);
	assert_false(r.is_estimate);
	mt_profile_free(p);
}

static void records_of_a_snapshot_keep_bytes_and_counts(void **state)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	mt_auto(mt_records) struct mt_records r = {0};
	uint64_t bytes = 0, count = 0;

	p->snapshot = 1;
	p->blocks = 0;
	p->site[3].live_bytes = 5003;
	assert_int_equal(mt_records_make(p, &r), 0);
	for (size_t i = 0; i < r.count; i++) {
		if (r.record[i].site != 3)
			continue;
		bytes += r.record[i].size * r.record[i].count;
		count += r.record[i].count;
	}
	assert_int_equal(bytes, 5003);
	assert_int_equal(count, 10);
	mt_profile_free(p);
}

static void every_failed_allocation_is_survived(void **state)
{
	struct mt_profile *p = fixture_profile(&(struct fixture_options){0});
	struct mt_tree_query q = {.by = MT_TREE_FUNCTION, .names = &fixture_names};
	struct mt_tree t = {0};
	size_t made;

	mt_alloc_fail_from_for_test(0);
	assert_int_equal(mt_tree_make(p, p, &q, &t), 0);
	mt_tree_done(&t);
	made = mt_alloc_fail_from_for_test(0);
	assert_true(made > 5);
	for (size_t n = 1; n <= made; n++) {
		mt_alloc_fail_from_for_test(n);
		assert_int_equal(mt_tree_make(p, p, &q, &t), -ENOMEM);
		mt_alloc_fail_from_for_test(0);
	}
	mt_profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(callers_begin_at_the_entry_and_leave_the_tracker_out),
		cmocka_unit_test(callees_are_the_other_direction),
		cmocka_unit_test(functions_put_their_call_sites_together),
		cmocka_unit_test(neighbours_of_one_library_are_one),
		cmocka_unit_test(sizes_stand_above_their_places),
		cmocka_unit_test(two_runs_at_other_addresses_show_what_changed),
		cmocka_unit_test(what_is_gone_is_shown_too),
		cmocka_unit_test(records_are_sums_by_site_and_size),
		cmocka_unit_test(records_of_a_snapshot_keep_bytes_and_counts),
		cmocka_unit_test(every_failed_allocation_is_survived),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
