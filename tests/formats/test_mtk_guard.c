/* SPDX-License-Identifier: MIT */
/* Errors found on guarded blocks, from the file to the profile. */
#include <string.h>

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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(errors_and_the_pool_are_read),
		cmocka_unit_test(errors_survive_compaction),
		cmocka_unit_test(a_file_without_the_table_has_no_errors),
		cmocka_unit_test(what_an_error_names_in_vain_becomes_nothing),
		cmocka_unit_test(unknown_kinds_are_left_out_and_counted),
		cmocka_unit_test(an_error_that_is_being_written_is_not_there_yet),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
