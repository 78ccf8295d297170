/* SPDX-License-Identifier: MIT */
/* Errors found on guarded and checked blocks, from the file to the profile. */
#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "formats/fixture.h"
#include "formats/mtk_write.h"

static struct mt_state_error *raw_error(struct mtk_builder *b, uint32_t number)
{
	return mtk_builder_at(b, MT_REGION_ERRORS, number);
}

static void assert_the_two_errors(const struct mt_profile *p)
{
	const struct mt_profile_error *e = p->error;
	assert_int_equal(p->error_count, 2);
	assert_int_equal(e[0].kind, MT_ERROR_OVERFLOW);
	assert_int_equal(e[0].access, MT_ACCESS_WRITE);
	assert_int_equal(e[0].signal, 11);
	assert_int_equal(e[0].address - e[0].block, 32);
	assert_int_equal(e[0].block_bytes, 32);
	assert_int_equal(e[0].use.tid, 4242);
	assert_int_equal(e[0].use.ns, 100000000);
	assert_int_equal(p->node[e[0].use.node].pc, 0x402301);
	assert_int_equal(p->node[e[0].use.node].kind, MT_FRAME_EXACT);
	assert_int_equal(p->node[e[0].alloc.node].pc, 0x402100);
	assert_int_equal(e[0].free.tid, 0);
	assert_int_equal(e[1].kind, MT_ERROR_DOUBLE_FREE);
	assert_int_equal(e[1].flags, MT_ERROR_FATAL);
	assert_int_equal(e[1].use.thread, 2);
	assert_int_equal(e[1].free.ns, 180000000);
}

static void errors_and_the_pool_are_read(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_guarded();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	assert_the_two_errors(p);
	assert_int_equal(p->guard_slots, 64);
	assert_int_equal(p->guard_bytes, 64 * 4096);
	assert_int_equal(p->guard_placed, 12);
	assert_int_equal(p->guard_refused, 3);
}

static void errors_survive_compaction(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_guarded();
	char from[512], to[512];
	struct mt_profile *p = NULL;
	struct mt_err err;
	snprintf(from, sizeof(from), "%s", temp_path("guard-wide"));
	snprintf(to, sizeof(to), "%s", temp_path("guard-compact"));
	assert_int_equal(mtk_builder_write_sparse(b, from, 4096), 0);
	assert_int_equal(mt_mtk_compact(from, to, NULL, &err), 0);
	assert_int_equal(mt_mtk_read(to, &p, &err), 0);
	assert_the_two_errors(p);
	mt_profile_free(p);
	unlink(from);
	unlink(to);
}

static void a_file_without_the_table_has_no_errors(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	assert_int_equal(p->error_count, 0);
	assert_int_equal(p->guard_slots, 0);
}

static void what_an_error_names_in_vain_becomes_nothing(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_guarded();
	raw_error(b, 1)->use.node = 4000000;
	raw_error(b, 1)->alloc.thread = UINT32_MAX;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->error_count, 2);
	assert_int_equal(p->error[0].use.node, 0);
	assert_int_equal(p->error[0].use.tid, 4242);
	assert_int_equal(p->error[0].alloc.thread, 0);
	assert_int_equal(p->warning_count, 1);
	assert_non_null(strstr(p->warning[0], "2 memory errors"));
}

static void unknown_kinds_are_left_out_and_counted(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_guarded();
	raw_error(b, 1)->kind = 77;
	raw_error(b, 2)->access = 3;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->error_count, 0);
	assert_int_equal(p->warning_count, 1);
	assert_non_null(strstr(p->warning[0], "2 memory errors"));
}

static void an_error_that_is_being_written_is_not_there_yet(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_guarded();
	raw_error(b, 1)->kind = 0;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	assert_int_equal(p->error_count, 1);
	assert_int_equal(p->error[0].kind, MT_ERROR_DOUBLE_FREE);
}

/* ---- check mode ---- */

static void assert_the_errors_of_check_mode(const struct mt_profile *p)
{
	const struct mt_profile_error *e = p->error;
	assert_int_equal(p->error_count, 5);
	assert_int_equal(p->mismatched_frees, 1);
	assert_int_equal(p->mode, MT_MODE_CHECK);
	assert_int_equal(e[0].call, MT_CALL_FREE);
	assert_int_equal(e[0].alloc_call, MT_CALL_MALLOC);
	assert_non_null(e[0].damage);
	assert_int_equal(e[0].damage->first - e[0].block, 24);
	assert_int_equal(e[0].damage->last - e[0].block, 28);
	assert_int_equal(e[0].damage->count, 5);
	assert_int_equal(e[0].damage->expected, 0xbb);
	assert_int_equal(e[0].damage->window_start, e[0].block + 16 - 64);
	assert_int_equal(e[0].damage->window_bytes, 256);
	assert_memory_equal(e[0].damage->window + 64 + 8, "hello", 5);
	assert_int_equal(e[0].damage->before.bytes, 40);
	assert_true(e[0].damage->before.is_freed);
	assert_int_equal(e[0].damage->after.start, e[0].block + 0x80);
	assert_int_equal(p->node[e[0].damage->after.node].pc, 0x402100);
	assert_int_equal(e[0].damage->word_node, 0);
	assert_int_equal(e[3].kind, MT_ERROR_MISMATCH);
	assert_int_equal(e[3].alloc_call, MT_CALL_NEW_ARRAY);
	assert_null(e[3].damage);
	assert_int_equal(e[4].kind, MT_ERROR_HEADER);
	assert_int_equal(e[4].tag, 0x41414141);
}

static void bytes_and_neighbours_are_read(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_checked();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_no_warnings(p);
	assert_the_errors_of_check_mode(p);
}

static void an_address_that_was_written_gets_a_frame_to_be_named(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_checked();
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	uint32_t node = p->error[2].damage->word_node;
	assert_in_range(node, mtk_builder_count(b, MT_REGION_NODES), p->node_count - 1);
	assert_int_equal(p->node[node].pc - 1, 0x402345);
	assert_int_equal(p->node[node].kind, MT_FRAME_EXACT);
	assert_int_equal(p->node[node].module, 1);
}

static void what_check_mode_found_survives_compaction(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_checked();
	char from[512], to[512];
	struct mt_profile *p = NULL;
	struct mt_err err;
	snprintf(from, sizeof(from), "%s", temp_path("check-wide"));
	snprintf(to, sizeof(to), "%s", temp_path("check-compact"));
	assert_int_equal(mtk_builder_write_sparse(b, from, 4096), 0);
	assert_int_equal(mt_mtk_compact(from, to, NULL, &err), 0);
	assert_int_equal(mt_mtk_read(to, &p, &err), 0);
	assert_the_errors_of_check_mode(p);
	mt_profile_free(p);
	unlink(from);
	unlink(to);
}

static struct mt_state_damage *raw_damage(struct mtk_builder *b, uint32_t number)
{
	return mtk_builder_at(b, MT_REGION_DAMAGE, number);
}

static void bytes_that_cannot_be_are_left_out_and_the_error_stays(void **state)
{
	static const struct mt_state_damage bad[] = {
		{.first = 100, .last = 99, .count = 1},
		{.first = 100, .last = 109, .count = 11},
		{.first = 100, .last = 109, .count = 0},
		{.first = 0, .last = 5, .count = 1},
		{.first = 0, .count = 1},
		{.window_bytes = 257},
		{.window_start = UINT64_MAX - 255, .window_bytes = 256},
		{.first = 100, .last = 109, .count = 3, .expected = 256},
	};
	for (size_t i = 0; i < MT_ARRAY_LEN(bad); i++) {
		mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_checked();
		*raw_damage(b, 2) = bad[i];
		mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
		assert_int_equal(p->error_count, 5);
		assert_non_null(p->error[0].damage);
		assert_null(p->error[1].damage);
		assert_int_equal(p->warning_count, 1);
		assert_non_null(strstr(p->warning[0], "1 memory errors"));
	}
}

static void what_check_mode_names_in_vain_becomes_nothing(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_checked();
	raw_error(b, 1)->damage = 4;
	raw_error(b, 2)->call = MT_CALL_USABLE_SIZE + 1;
	raw_error(b, 3)->alloc_call = UINT32_MAX;
	raw_damage(b, 2)->before.node = mtk_builder_count(b, MT_REGION_NODES);
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->error_count, 5);
	assert_null(p->error[0].damage);
	assert_int_equal(p->error[1].call, 0);
	assert_int_equal(p->error[2].alloc_call, 0);
	assert_int_equal(p->error[1].damage->before.node, 0);
	assert_int_equal(p->error[1].damage->before.bytes, 40);
	assert_int_equal(p->warning_count, 1);
	assert_non_null(strstr(p->warning[0], "4 memory errors"));
}

static void a_kind_behind_the_last_is_left_out(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_checked();
	raw_error(b, 5)->kind = MT_ERROR_HEADER + 1;
	mt_auto(mt_profile) struct mt_profile *p = read_builder(b);
	assert_int_equal(p->error_count, 4);
	assert_int_equal(p->warning_count, 1);
}

static void every_allocation_for_errors_may_fail(void **state)
{
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_checked();
	size_t len, failed = 0;
	mt_auto(free) uint8_t *data = mtk_builder_bytes(b, &len);
	struct mt_profile *p = NULL;
	struct mt_err err;
	int r = -ENOMEM;
	while (r == -ENOMEM) {
		mt_alloc_fail_from_for_test(++failed);
		r = mt_mtk_read_memory(data, len, "x", &p, &err);
		mt_alloc_fail_from_for_test(0);
	}
	assert_int_equal(r, 0);
	assert_true(failed > 20);
	assert_the_errors_of_check_mode(p);
	mt_profile_free(p);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_and_the_pool_are_read),
		cmocka_unit_test(errors_survive_compaction),
		cmocka_unit_test(a_file_without_the_table_has_no_errors),
		cmocka_unit_test(what_an_error_names_in_vain_becomes_nothing),
		cmocka_unit_test(unknown_kinds_are_left_out_and_counted),
		cmocka_unit_test(an_error_that_is_being_written_is_not_there_yet),
		cmocka_unit_test(bytes_and_neighbours_are_read),
		cmocka_unit_test(an_address_that_was_written_gets_a_frame_to_be_named),
		cmocka_unit_test(what_check_mode_found_survives_compaction),
		cmocka_unit_test(bytes_that_cannot_be_are_left_out_and_the_error_stays),
		cmocka_unit_test(what_check_mode_names_in_vain_becomes_nothing),
		cmocka_unit_test(a_kind_behind_the_last_is_left_out),
		cmocka_unit_test(every_allocation_for_errors_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
