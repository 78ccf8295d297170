/* SPDX-License-Identifier: MIT */
/* Compaction: same profile, fewer bytes, whole or not at all. */
#include "fixture.h"

#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "formats/mtk_write.h"

struct paths {
	char from[512], to[512];
};

static int setup(void **state)
{
	struct paths *p = calloc(1, sizeof(*p));
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_sample();
	mtk_builder_header(b)->end_kind = MT_END_RUNNING;
	mtk_builder_header(b)->grow_lock = 77;
	snprintf(p->from, sizeof(p->from), "%s", temp_path("from.mtk"));
	snprintf(p->to, sizeof(p->to), "%s", temp_path("to.mtk"));
	*state = p;
	return mtk_builder_write_sparse(b, p->from, 100000);
}

static int teardown(void **state)
{
	struct paths *p = *state;
	unlink(p->from);
	unlink(p->to);
	free(p);
	return 0;
}

static struct mt_profile *read_path(const char *path)
{
	struct mt_profile *p = NULL;
	struct mt_err err;
	if (mt_mtk_read(path, &p, &err))
		fail_msg("%s", err.text);
	return p;
}

static void compact(const char *from, const char *to, const struct mt_mtk_finish *finish)
{
	struct mt_err err;
	if (mt_mtk_compact(from, to, finish, &err))
		fail_msg("%s", err.text);
}

static void compact_file_is_small_and_private(void **state)
{
	struct paths *p = *state;
	struct stat st;
	compact(p->from, p->to, NULL);
	assert_int_equal(stat(p->to, &st), 0);
	assert_in_range(st.st_size, 4096, 12000);
	assert_int_equal(st.st_mode & 07777, 0600);
}

static void compact_file_reads_as_the_same_profile(void **state)
{
	struct paths *paths = *state;
	compact(paths->from, paths->to, NULL);
	mt_auto(mt_profile) struct mt_profile *a = read_path(paths->from);
	mt_auto(mt_profile) struct mt_profile *b = read_path(paths->to);
	assert_no_warnings(b);
	assert_same_blocks(a, b);
	assert_same_sites(a, b);
	assert_same_threads(a, b);
	assert_int_equal(a->cell_count, b->cell_count);
	assert_int_equal(a->node_count, b->node_count);
	assert_int_equal(a->peak_bytes, b->peak_bytes);
	assert_int_equal(a->state_bytes, b->state_bytes);
	assert_string_equal(a->cmdline, b->cmdline);
	assert_string_equal(a->module[2].path, b->module[2].path);
}

static void finish_writes_end_and_clock_pair(void **state)
{
	struct paths *paths = *state;
	struct mt_state_header h;
	const struct mt_mtk_finish finish = {
		.end_kind = MT_END_SIGNALED,
		.end_code = 9,
		.mono_mark_ns = 5000000000u + 20000 * 2000000ull,
		.tick_mark = (1ull << 40) + (20000ull << 21),
	};
	compact(paths->from, paths->to, &finish);
	assert_int_equal(mt_mtk_read_header(paths->to, &h, NULL), 0);
	assert_int_equal(h.end_kind, MT_END_SIGNALED);
	assert_int_equal(h.end_code, 9);
	assert_int_equal(h.grow_lock, 0);
	mt_auto(mt_profile) struct mt_profile *p = read_path(paths->to);
	assert_int_equal(p->time_resolution_ns, 2000000);
	assert_int_equal(p->duration_ns, 20000 * 2000000ull);
}

static void without_finish_the_files_own_end_stays(void **state)
{
	struct paths *paths = *state;
	struct mt_state_header h;
	const struct mt_mtk_finish ended = {.end_kind = MT_END_EXITED, .end_code = 3};
	const struct mt_mtk_finish nothing = {0};
	compact(paths->from, paths->from, &ended); /* in place */
	compact(paths->from, paths->to, &nothing);
	assert_int_equal(mt_mtk_read_header(paths->to, &h, NULL), 0);
	assert_int_equal(h.end_kind, MT_END_EXITED);
	assert_int_equal(h.end_code, 3);
	assert_int_equal(h.tick_mark, (1ull << 40) + (10000ull << 21));
}

static void same_input_gives_same_bytes_and_compacting_twice_changes_nothing(void **state)
{
	struct paths *paths = *state;
	mt_auto(free) char *a = NULL;
	mt_auto(free) char *b = NULL;
	mt_auto(free) char *c = NULL;
	size_t a_len, b_len, c_len;
	compact(paths->from, paths->to, NULL);
	assert_int_equal(mt_file_read(paths->to, 1 << 20, &a, &a_len, NULL), 0);
	compact(paths->from, paths->to, NULL);
	assert_int_equal(mt_file_read(paths->to, 1 << 20, &b, &b_len, NULL), 0);
	compact(paths->to, paths->to, NULL);
	assert_int_equal(mt_file_read(paths->to, 1 << 20, &c, &c_len, NULL), 0);
	assert_int_equal(a_len, b_len);
	assert_int_equal(a_len, c_len);
	assert_memory_equal(a, b, a_len);
	assert_memory_equal(a, c, a_len);
}

static void many_blocks_survive_and_free_slots_do_not(void **state)
{
	struct paths *paths = *state;
	mt_auto(mtk_builder) struct mtk_builder *b = mtk_builder_new();
	uint32_t site = mtk_builder_site(b, mtk_builder_node(b, 1, 1, 0), MT_CALL_MALLOC);
	struct mt_state_live free_slot = {.place = 0, .size = 1, .cell = 1};
	struct stat st;
	for (uint32_t i = 0; i < 10000; i++) {
		mtk_builder_add(b, MT_REGION_LIVE, &free_slot);
		mtk_builder_alloc(b, 1, site, 0x100000 + 16ull * i, 16);
	}
	assert_int_equal(mtk_builder_write_sparse(b, paths->from, 100000), 0);
	compact(paths->from, paths->to, NULL);
	assert_int_equal(stat(paths->to, &st), 0);
	assert_in_range(st.st_size, 240000, 250000);
	mt_auto(mt_profile) struct mt_profile *p = read_path(paths->to);
	assert_no_warnings(p);
	assert_int_equal(p->blocks, 10000);
	assert_int_equal(p->site[site].live_bytes, 160000);
}

static void an_end_is_noted_where_the_file_lies(void **state)
{
	struct paths *paths = *state;
	struct mt_mtk_finish first = {.end_kind = MT_END_EXITED, .end_code = 3};
	struct mt_mtk_finish second = {.end_kind = MT_END_SIGNALED, .end_code = 9};
	mt_auto(mt_profile) struct mt_profile *before = NULL;

	before = read_path(paths->from);
	assert_int_equal(mt_mtk_note_end(paths->from, &first), 0);
	assert_int_equal(mt_mtk_note_end(paths->from, &second), 0); /* it is known already */
	mt_auto(mt_profile) struct mt_profile *p = read_path(paths->from);
	assert_int_equal(p->end_kind, MT_END_EXITED);
	assert_int_equal(p->end_code, 3);
	assert_int_equal(p->blocks, before->blocks);
	assert_int_equal(mt_mtk_note_end("/nonexistent/x.mtk", &first), -ENOENT);
}

static void missing_folder_is_said_and_nothing_is_left(void **state)
{
	struct paths *paths = *state;
	struct mt_err err;
	assert_int_equal(mt_mtk_compact(paths->from, "/nonexistent/dir/x.mtk", NULL, &err),
			 -ENOENT);
	assert_string_equal(err.text,
			    "cannot create '/nonexistent/dir/x.mtk': No such file or directory");
	assert_int_equal(mt_mtk_compact(paths->from, "/tmp", NULL, &err), -EISDIR);
	assert_string_equal(err.text, "cannot write '/tmp': Is a directory");
}

static void missing_source_is_said(void **state)
{
	struct paths *paths = *state;
	struct mt_err err;
	assert_int_equal(mt_mtk_compact("/nonexistent/x", paths->to, NULL, &err), -ENOENT);
	assert_string_equal(err.text, "cannot open '/nonexistent/x': No such file or directory");
	assert_int_not_equal(access(paths->to, F_OK), 0);
}

/* A file size limit stands for a full disk: both fail in the middle of a write. */
static void failed_write_leaves_the_old_file(void **state)
{
	struct paths *paths = *state;
	struct rlimit before, small = {6000, RLIM_INFINITY};
	struct mt_err err;
	mt_auto(free) char *text = NULL;
	size_t len;
	assert_int_equal(mt_file_write_atomic(paths->to, "old", 3, 0600, NULL), 0);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
	small.rlim_max = before.rlim_max;
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
	int r = mt_mtk_compact(paths->from, paths->to, NULL, &err);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
	assert_int_equal(r, -EFBIG);
	assert_non_null(strstr(err.text, "cannot write '"));
	assert_non_null(strstr(err.text, ".mtk': File too large"));
	assert_int_equal(mt_file_read(paths->to, 100, &text, &len, NULL), 0);
	assert_string_equal(text, "old");
}

static void damaged_table_is_refused(void **state)
{
	struct paths *paths = *state;
	struct mt_state_header h;
	struct mt_err err;
	int fd = open(paths->from, O_RDWR | O_CLOEXEC);
	assert_int_equal(mt_file_pread(fd, &h, sizeof(h), 0), sizeof(h));
	h.region[MT_REGION_SITES - 1].elem_bytes = 3;
	assert_int_equal(mt_file_pwrite(fd, &h, sizeof(h), 0), 0);
	close(fd);
	assert_int_equal(mt_mtk_compact(paths->from, paths->to, NULL, &err), -EBADMSG);
	assert_int_equal(err.offset, 512 + 48 * (MT_REGION_SITES - 1));
	assert_non_null(strstr(err.text, "its table of sites is damaged; keep the file as it is"));
	assert_int_not_equal(access(paths->to, F_OK), 0);
}

static void every_allocation_may_fail(void **state)
{
	struct paths *paths = *state;
	struct mt_err err;
	size_t failed = 0;
	for (size_t n = 1;; n++) {
		mt_alloc_fail_from_for_test(n);
		int r = mt_mtk_compact(paths->from, paths->to, NULL, &err);
		mt_alloc_fail_from_for_test(0);
		if (!r)
			break;
		assert_int_equal(r, -ENOMEM);
		assert_int_not_equal(access(paths->to, F_OK), 0);
		failed++;
	}
	assert_true(failed > 10);
}

#define WITH_FILE(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		WITH_FILE(compact_file_is_small_and_private),
		WITH_FILE(compact_file_reads_as_the_same_profile),
		WITH_FILE(finish_writes_end_and_clock_pair),
		WITH_FILE(without_finish_the_files_own_end_stays),
		WITH_FILE(same_input_gives_same_bytes_and_compacting_twice_changes_nothing),
		WITH_FILE(many_blocks_survive_and_free_slots_do_not),
		WITH_FILE(missing_folder_is_said_and_nothing_is_left),
		WITH_FILE(missing_source_is_said),
		WITH_FILE(an_end_is_noted_where_the_file_lies),
		WITH_FILE(failed_write_leaves_the_old_file),
		WITH_FILE(damaged_table_is_refused),
		WITH_FILE(every_allocation_may_fail),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
