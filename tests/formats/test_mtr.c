/* SPDX-License-Identifier: MIT */
/* Reading recordings: codes, order, what is missing, damage. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "formats/mtr_events.h"
#include "formats/mtr_write.h"
#include "support/mtr_builder.h"

/* 255: allocation of a cell and size below 128 */
#define ALLOC(cell, size) 255, (cell), (size)
#define FREE(back) (128 + (back))
#define TIME(units) 254, 4, (units)
#define OTHER(thread, sequence) 254, 2, (thread), (sequence)

static struct mt_buf file;

static int setup(void **state)
{
	mtr_begin(&file);
	return 0;
}

static int teardown(void **state)
{
	mt_buf_done(&file);
	return 0;
}

/* The steps as text: "a1.1=24" allocation of thread 1's block 1 of 24 bytes, "f1.1" its free. */
static const char *steps_of(const void *data, size_t len, struct mt_mtr_losses *ret_losses)
{
	static char text[4096];
	struct mt_mtr m;
	struct mt_mtr_step s;
	size_t at = 0;

	text[0] = 0;
	if (mt_mtr_open_memory(&m, data, len, "test", NULL))
		return "refused";
	struct mt_mtr_events *e = mt_mtr_events_new(&m);
	while (mt_mtr_events_next(e, &s) == 1) {
		static const char letter[] = {'a', 'f', 'r', 'l'};
		const struct mt_mtr_live *b = s.made.cell ? &s.made : &s.gone;

		at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%c%u.%u", at ? " " : "",
				       letter[s.kind], b->thread, b->sequence);
		if (s.made.cell)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "=%llu",
					       (unsigned long long)s.made.size);
		if (s.kind == MT_MTR_STEP_REALLOC)
			at += (size_t)snprintf(text + at, sizeof(text) - at, "<%u.%u",
					       s.gone.thread, s.gone.sequence);
	}
	if (ret_losses)
		*ret_losses = mt_mtr_events_losses(e);
	mt_mtr_events_free(e);
	mt_mtr_close(&m);
	return text;
}

static const char *steps(struct mt_mtr_losses *ret_losses)
{
	return steps_of(file.data, file.len, ret_losses);
}

static uint8_t near_slot(uint32_t cell, uint64_t size)
{
	return (uint8_t)mt_stream_near(mt_stream_hash((uint64_t)cell << 32 | size));
}

static uint32_t far_slot(uint32_t cell, uint64_t size)
{
	return mt_stream_far(mt_stream_hash((uint64_t)cell << 32 | size));
}

/* --- codes ----------------------------------------------------------------------------------- */

static void every_code_is_understood(void **state)
{
	uint32_t far = far_slot(3, 24);

	MTR_EVENTS(&file, 1, 0, 0, 5, ALLOC(3, 24), near_slot(3, 24),
		   (uint8_t)(MT_CODE_KNOWN2 + (far >> 8)), (uint8_t)far, FREE(0), TIME(9), 254, 6,
		   4, ALLOC(0, 64), 254, 7, 9, 0x80, 0x80, 0x80, 0x80, 0x10 /* 4 GiB */, FREE(4),
		   254, 5, ALLOC(9, 1), 254, 3, 50, ALLOC(9, 2), 253, 1 << 1, 253, 1 /* -1 */);
	assert_string_equal(steps(NULL), "a1.1=24 a1.2=24 a1.3=24 f1.3 a1.4=64 a1.5=4294967296 "
					 "r1.6=1<1.1 a1.51=2");
}

static void far_frees_count_from_the_last_or_the_present(void **state)
{
	struct mt_mtr_losses l;
	uint32_t back = 96 + 256 + 7, far_back = MT_STREAM_MIDDLE + 0x1234;

	/* blocks 1 to 9, then a jump: last is 9 + back - 2, so that 2 is `back` back */
	MTR_EVENTS(&file, 1, 0, 0, 0, ALLOC(1, 8), near_slot(1, 8), near_slot(1, 8),
		   near_slot(1, 8), near_slot(1, 8), near_slot(1, 8), 254, 3,
		   (uint8_t)((2 + back) | 0x80), (uint8_t)((2 + back) >> 7), 225, 7, 254, 3,
		   (uint8_t)((3 + far_back) | 0x80), (uint8_t)((3 + far_back) >> 7 | 0x80),
		   (uint8_t)((3 + far_back) >> 14), 252, 0x34, 0x12, 253, 2 /* + 1 */, 253, 1);
	assert_string_equal(steps(&l), "a1.1=8 a1.2=8 a1.3=8 a1.4=8 a1.5=8 a1.6=8 f1.2 f1.3 f1.4");
	assert_int_equal(l.unknown_frees, 1); /* the last frees 3 again */
	assert_int_equal(l.damaged, 0);
}

static void what_means_nothing_ends_the_block(void **state)
{
	static const uint8_t bad[][12] = {
		{7},                                    /* an empty slot */
		{248, 9},                               /* an empty far slot */
		{254, 9},                               /* a reserved escape */
		{254, 1},                               /* likewise */
		{254},                                  /* cut */
		{225},                                  /* cut */
		{255, 1},                               /* cut */
		{252, 1},                               /* cut */
		{254, 6, 64},                           /* alignment 2^64 */
		{255, 1, 0x80, 0x80, 0x80, 0x80, 0x10}, /* 4 GiB in a code that has 32 bits */
		{254, 7, 1, 255, 255, 255, 255, 255, 255, 255, 255, 255}, /* no end */
		{254, 7, 0, 5},                                           /* no cell */
	};
	static const size_t len[] = {1, 2, 2, 2, 1, 1, 2, 2, 3, 7, 12, 4};

	for (size_t i = 0; i < MT_ARRAY_LEN(bad); i++) {
		struct mt_mtr_losses l;
		uint8_t codes[32] = {ALLOC(3, 24)};
		struct mt_stream_block head = {.kind = MT_STREAM_EVENTS, .thread = 1};

		memcpy(codes + 3, bad[i], len[i]);
		mtr_begin(&file);
		mtr_block(&file, head, codes, 3 + len[i]);
		assert_string_equal(steps(&l), "a1.1=24");
		assert_int_equal(l.damaged, 1);
	}
}

/* --- order ----------------------------------------------------------------------------------- */

static void threads_are_merged_by_time(void **state)
{
	MTR_EVENTS(&file, 2, 0, 0, 3, ALLOC(5, 1), TIME(4), ALLOC(5, 2));
	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1), TIME(2), ALLOC(4, 2), TIME(9), ALLOC(4, 3));
	assert_string_equal(steps(NULL), "a1.1=1 a2.1=1 a1.2=2 a2.2=2 a1.3=3");
}

static void buffers_are_put_in_order(void **state)
{
	MTR_EVENTS(&file, 1, 1, 1, 8, ALLOC(4, 2));
	MTR_EVENTS(&file, 1, 2, 2, 9, FREE(1));
	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1));
	assert_string_equal(steps(NULL), "a1.1=1 a1.2=2 f1.1");
}

static void a_free_waits_for_its_allocation(void **state)
{
	/* by the clock the free of thread 1 comes first: the clock is coarse */
	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1), OTHER(2, 2), ALLOC(4, 2));
	MTR_EVENTS(&file, 2, 0, 0, 3, ALLOC(5, 7), TIME(2), ALLOC(5, 8), ALLOC(5, 9));
	assert_string_equal(steps(NULL), "a1.1=1 a2.1=7 a2.2=8 f2.2 a1.2=2 a2.3=9");
}

static void a_free_of_what_never_comes_waits_for_nobody(void **state)
{
	struct mt_mtr_losses l;

	/* thread 2 goes on long after, thread 3 is not there, 1 and 4 wait for each other */
	MTR_EVENTS(&file, 1, 0, 0, 3, OTHER(2, 5), OTHER(3, 1), OTHER(4, 1), ALLOC(4, 2));
	MTR_EVENTS(&file, 2, 0, 0, 0x7f, ALLOC(5, 7));
	MTR_EVENTS(&file, 4, 0, 0, 3, OTHER(1, 1), ALLOC(6, 3));
	assert_string_equal(steps(&l), "a1.1=2 f1.1 a4.1=3 a2.1=7");
	assert_int_equal(l.unknown_frees, 3);
}

static void a_realloc_may_stand_in_two_buffers(void **state)
{
	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1), FREE(0));
	MTR_EVENTS(&file, 1, 1, 1, 4, 254, 5, ALLOC(4, 2));
	assert_string_equal(steps(NULL), "a1.1=1 r1.2=2<1.1");
}

static void older_blocks_come_first(void **state)
{
	const struct mt_stream_live live[] = {
		{.size = 10, .cell = 4, .sequence = 7, .unit = 1, .thread = 1},
		{.size = 20, .cell = 4, .sequence = 8, .unit = 2, .thread = 1},
		{.size = 30, .cell = 4, .sequence = 9, .unit = 2, .thread = 1}};

	mtr_block(&file, (struct mt_stream_block){.kind = MT_STREAM_LIVE}, live, sizeof(live));
	/* the third is in both */
	MTR_EVENTS(&file, 1, 0, 8, 3, ALLOC(4, 30), FREE(2));
	assert_string_equal(steps(NULL), "l1.7=10 l1.8=20 l1.9=30 f1.7");
}

static void slots_are_used_again(void **state)
{
	struct mt_mtr m;
	struct mt_mtr_step s;
	uint32_t slots;

	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1), ALLOC(4, 2), FREE(1), ALLOC(4, 3), FREE(0));
	assert_int_equal(mt_mtr_open_memory(&m, file.data, file.len, "test", NULL), 0);
	struct mt_mtr_events *e = mt_mtr_events_new(&m);
	while (mt_mtr_events_next(e, &s) == 1)
		;
	const struct mt_mtr_live *live = mt_mtr_events_live(e, &slots);
	assert_int_equal(slots, 2);
	assert_int_equal(live[0].cell, 0);
	assert_int_equal(live[1].size, 2);
	mt_mtr_events_free(e);
	mt_mtr_close(&m);
}

/* --- what is missing ------------------------------------------------------------------------- */

static void what_is_missing_is_counted(void **state)
{
	struct mt_mtr_losses l;

	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1));
	mtr_block(&file,
		  (struct mt_stream_block){.kind = MT_STREAM_EVENTS,
					   .thread = 1,
					   .number = 3,
					   .lost_events = 77,
					   .first_sequence = 20,
					   .first_unit = 9},
		  (const uint8_t[]){ALLOC(4, 2), FREE(5), FREE(20)}, 5);
	assert_string_equal(steps(&l), "a1.1=1 a1.21=2 f1.1");
	assert_int_equal(l.buffers, 2);
	assert_int_equal(l.dropped_events, 77);
	assert_int_equal(l.unknown_frees, 1);
	assert_int_equal(l.allocs, 2);
	assert_int_equal(l.frees, 1);
}

static void blocks_with_one_name_are_told(void **state)
{
	struct mt_mtr_losses l;

	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1), 254, 3, 0, ALLOC(4, 2), FREE(0));
	assert_string_equal(steps(&l), "a1.1=1 a1.1=2 f1.1");
	assert_int_equal(l.ambiguous, 1);
}

static void a_buffer_that_is_there_twice_counts_once(void **state)
{
	struct mt_mtr m;

	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1));
	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1), ALLOC(4, 2));
	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1), ALLOC(4, 2));
	assert_string_equal(steps(NULL), "a1.1=1 a1.2=2");
	assert_int_equal(mt_mtr_open_memory(&m, file.data, file.len, "test", NULL), 0);
	assert_int_equal(m.twice, 2);
	mt_mtr_close(&m);
}

/* The companion looks at the ring in the order of its places, which is not that of the numbers. */
static void a_recording_that_loses_its_begin_keeps_no_gap(void **state)
{
	char path[] = "/tmp/memtrack-mtr-cut-XXXXXX";
	struct mt_mtr m;
	int fd = mkstemp(path);

	mtr_begin(&file);
	size_t begin = file.len;
	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1));
	size_t each = file.len - begin;
	MTR_EVENTS(&file, 2, 5, 0, 3, ALLOC(4, 2));
	MTR_EVENTS(&file, 1, 2, 2, 3, ALLOC(4, 3));
	MTR_EVENTS(&file, 1, 1, 1, 3, ALLOC(4, 4));
	MTR_EVENTS(&file, 2, 6, 1, 3, ALLOC(4, 5));
	MTR_EVENTS(&file, 1, 3, 3, 3, ALLOC(4, 6));
	assert_int_equal(write(fd, file.data, file.len), file.len);
	close(fd);
	assert_int_equal(mt_mtr_cut(path, 3 * each, NULL), 0);
	assert_int_equal(mt_mtr_open(&m, path, NULL), 0);
	assert_int_equal(m.blocks, 2);
	assert_int_equal(m.block[0].head.number, 3);
	assert_int_equal(m.block[1].head.number, 6);
	assert_int_equal(m.header.cut_blocks, 4);
	assert_int_equal(m.header.cut_bytes, 4 * each);
	mt_mtr_close(&m);
	unlink(path);
}

/* --- damage ---------------------------------------------------------------------------------- */

static void fill_three_blocks(void)
{
	mtr_begin(&file);
	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1));
	MTR_EVENTS(&file, 1, 1, 1, 3, ALLOC(4, 2));
	MTR_EVENTS(&file, 1, 2, 2, 3, ALLOC(4, 3));
}

static void a_file_that_is_cut_anywhere_gives_its_whole_blocks(void **state)
{
	static const char *const whole[] = {"", "a1.1=1", "a1.1=1 a1.2=2", "a1.1=1 a1.2=2 a1.3=3"};
	size_t begin = sizeof(struct mt_stream_header), each = MT_STREAM_HEAD_BYTES + 3;

	fill_three_blocks();
	for (size_t len = 0; len <= file.len; len++) {
		mt_auto(free) uint8_t *exact = malloc(len + !len);
		memcpy(exact, file.data, len);
		const char *want = len < begin ? "refused" : whole[(len - begin) / each];
		assert_string_equal(steps_of(exact, len, NULL), want);
		if (len >= begin) {
			struct mt_mtr m;
			assert_int_equal(mt_mtr_open_memory(&m, exact, len, "test", NULL), 0);
			assert_int_equal(m.cut_bytes, (len - begin) % each);
			assert_int_equal(m.damaged_bytes, 0);
			mt_mtr_close(&m);
		}
	}
}

static void a_changed_byte_costs_its_block_only(void **state)
{
	size_t begin = sizeof(struct mt_stream_header), each = MT_STREAM_HEAD_BYTES + 3;

	fill_three_blocks();
	for (size_t at = begin + each; at < begin + 2 * each; at++) {
		size_t in_head = at - begin - each;
		bool has_meaning = in_head < offsetof(struct mt_stream_block, state) ||
				   in_head >= offsetof(struct mt_stream_block, first_cell);

		file.data[at] ^= 0x55;
		assert_string_equal(steps(NULL),
				    has_meaning ? "a1.1=1 a1.3=3" : "a1.1=1 a1.2=2 a1.3=3");
		file.data[at] ^= 0x55;
	}
}

static void garbage_between_blocks_is_passed_over(void **state)
{
	struct mt_mtr m;
	static const char garbage[] = "MTRB, or so it says";

	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1));
	mt_buf_add(&file, garbage, sizeof(garbage));
	MTR_EVENTS(&file, 1, 1, 1, 3, ALLOC(4, 2));
	assert_string_equal(steps(NULL), "a1.1=1 a1.2=2");
	assert_int_equal(mt_mtr_open_memory(&m, file.data, file.len, "test", NULL), 0);
	assert_int_equal(m.damaged_bytes, sizeof(garbage));
	mt_mtr_close(&m);
}

static void unknown_kinds_of_blocks_are_skipped(void **state)
{
	MTR_EVENTS(&file, 1, 0, 0, 3, ALLOC(4, 1));
	mtr_block(&file, (struct mt_stream_block){.kind = 9}, "later", 5);
	MTR_EVENTS(&file, 1, 1, 1, 3, ALLOC(4, 2));
	assert_string_equal(steps(NULL), "a1.1=1 a1.2=2");
}

static void others_are_refused_with_a_reason(void **state)
{
	struct mt_err err;
	struct mt_mtr m;
	struct mt_stream_header *h = (struct mt_stream_header *)file.data;

	assert_int_equal(mt_mtr_open_memory(&m, "", 0, "test", &err), -EBADMSG);
	assert_string_equal(err.text, "'test' is no recording of memtrack");
	h->version_major = 2;
	assert_int_equal(mt_mtr_open_memory(&m, file.data, file.len, "test", &err),
			 -EPROTONOSUPPORT);
	h->version_major = 1;
	h->byte_order = 0x04030201;
	assert_int_equal(mt_mtr_open_memory(&m, file.data, file.len, "test", &err),
			 -EPROTONOSUPPORT);
	assert_int_equal(mt_mtr_open(&m, "/dev/null", &err), -EINVAL);
	assert_int_equal(mt_mtr_open(&m, "/nowhere/at/all", &err), -ENOENT);
}

static void no_memory_is_an_error_and_nothing_else(void **state)
{
	fill_three_blocks();
	for (size_t nth = 1;; nth++) {
		struct mt_mtr m;
		struct mt_mtr_step s;
		int r;

		mt_alloc_fail_from_for_test(nth);
		r = mt_mtr_open_memory(&m, file.data, file.len, "test", NULL);
		if (!r) {
			struct mt_mtr_events *e = mt_mtr_events_new(&m);

			r = e ? 0 : -ENOMEM;
			while (e && (r = mt_mtr_events_next(e, &s)) == 1)
				;
			mt_mtr_events_free(e);
			mt_mtr_close(&m);
		}
		if (mt_alloc_fail_from_for_test(0) < nth) {
			assert_int_equal(r, 0);
			return;
		}
		assert_int_equal(r, -ENOMEM);
	}
}

/* --- writing --------------------------------------------------------------------------------- */

static char path[] = "/tmp/memtrack-mtr-XXXXXX";

static int setup_path(void **state)
{
	memset(path + strlen(path) - 6, 'X', 6);
	int fd = mkstemp(path);
	close(fd);
	return setup(state);
}

static int teardown_path(void **state)
{
	unlink(path);
	return teardown(state);
}

static uint64_t size_of(const char *name)
{
	struct stat st;
	return stat(name, &st) ? 0 : (uint64_t)st.st_size;
}

static void what_is_written_is_read(void **state)
{
	static const uint8_t one[] = {ALLOC(4, 1)};
	uint8_t many[3 + 9000] = {ALLOC(4, 2)};
	const struct mt_state_header h = {.pid = 7, .proc_start = 8, .wall_start_ns = 9};
	struct mt_stream_block head = {.kind = MT_STREAM_EVENTS, .thread = 1};
	struct mt_mtr_losses l;
	struct mt_mtr_writer *w;
	struct mt_mtr m;
	struct mt_mtr_step s;

	memset(many + 3, near_slot(4, 2), 9000);
	for (int i = 0; i < 2; i++) { /* a writer that comes later goes on behind the first */
		assert_int_equal(mt_mtr_writer_open(path, &h, 0, &w, NULL), 0);
		head.number = (uint32_t)i;
		head.first_sequence = (uint32_t)i;
		head.raw_bytes = i ? sizeof(many) : sizeof(one);
		assert_int_equal(mt_mtr_append(w, &head, i ? many : one), 0);
		mt_mtr_writer_free(w);
	}
	assert_true(size_of(path) < 1000); /* compressed */
	assert_int_equal(mt_mtr_open(&m, path, NULL), 0);
	assert_int_equal(m.header.pid, 7);
	assert_int_equal(m.blocks, 2);
	assert_false(m.block[0].head.flags & MT_STREAM_ZSTD); /* would not get smaller */
	assert_true(m.block[1].head.flags & MT_STREAM_ZSTD);
	struct mt_mtr_events *e = mt_mtr_events_new(&m);
	while (mt_mtr_events_next(e, &s) == 1)
		;
	l = mt_mtr_events_losses(e);
	assert_int_equal(l.allocs, 1 + 1 + 9000);
	assert_int_equal(l.damaged, 0);
	mt_mtr_events_free(e);
	mt_mtr_close(&m);
}

static void a_limit_is_kept(void **state)
{
	const struct mt_state_header h = {.pid = 7};
	struct mt_stream_block head = {.kind = MT_STREAM_EVENTS, .raw_bytes = 3};
	static const uint8_t one[] = {ALLOC(4, 1)};
	struct mt_mtr_writer *w;

	assert_int_equal(mt_mtr_writer_open(path, &h, 128 + 2 * 67 + 64, &w, NULL), 0);
	assert_int_equal(mt_mtr_append(w, &head, one), 0);
	assert_int_equal(mt_mtr_append(w, &head, one), 0);
	assert_int_equal(mt_mtr_append(w, &head, one), -EDQUOT);
	assert_int_equal(size_of(path), 128 + 2 * 67);
	head = (struct mt_stream_block){.kind = MT_STREAM_END}; /* room was left */
	assert_int_equal(mt_mtr_append(w, &head, ""), 0);
	assert_int_equal(size_of(path), 128 + 2 * 67 + 64);
	mt_mtr_writer_free(w);
}

static void a_file_size_limit_of_ours_is_an_error_not_a_signal(void **state)
{
	const struct mt_state_header h = {.pid = 7};
	struct mt_stream_block head = {.kind = MT_STREAM_EVENTS, .raw_bytes = 3};
	struct rlimit was, small;
	struct mt_mtr_writer *w;

	assert_int_equal(mt_mtr_writer_open(path, &h, 0, &w, NULL), 0);
	getrlimit(RLIMIT_FSIZE, &was);
	small = (struct rlimit){150, was.rlim_max};
	setrlimit(RLIMIT_FSIZE, &small);
	int r = mt_mtr_append(w, &head, "abc");
	setrlimit(RLIMIT_FSIZE, &was);
	assert_int_equal(r, -EFBIG);
	assert_int_equal(size_of(path), 128);
	mt_mtr_writer_free(w);
}

static void a_full_disk_leaves_the_file_as_it_was(void **state)
{
	const struct mt_state_header h = {.pid = 7};
	struct mt_mtr_writer *w;
	struct mt_err err;

	/* the header is the first thing that does not fit */
	assert_int_equal(mt_mtr_writer_open("/dev/full", &h, 0, &w, &err), -ENOSPC);
	assert_non_null(strstr(err.text, "/dev/full"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
#define FILE_TEST(f) cmocka_unit_test_setup_teardown(f, setup_path, teardown_path)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(every_code_is_understood),
		TEST(far_frees_count_from_the_last_or_the_present),
		TEST(what_means_nothing_ends_the_block),
		TEST(threads_are_merged_by_time),
		TEST(buffers_are_put_in_order),
		TEST(a_free_waits_for_its_allocation),
		TEST(a_free_of_what_never_comes_waits_for_nobody),
		TEST(a_realloc_may_stand_in_two_buffers),
		TEST(older_blocks_come_first),
		TEST(slots_are_used_again),
		TEST(what_is_missing_is_counted),
		TEST(blocks_with_one_name_are_told),
		TEST(a_buffer_that_is_there_twice_counts_once),
		TEST(a_recording_that_loses_its_begin_keeps_no_gap),
		TEST(a_file_that_is_cut_anywhere_gives_its_whole_blocks),
		TEST(a_changed_byte_costs_its_block_only),
		TEST(garbage_between_blocks_is_passed_over),
		TEST(unknown_kinds_of_blocks_are_skipped),
		TEST(others_are_refused_with_a_reason),
		TEST(no_memory_is_an_error_and_nothing_else),
		FILE_TEST(what_is_written_is_read),
		FILE_TEST(a_limit_is_kept),
		FILE_TEST(a_file_size_limit_of_ours_is_an_error_not_a_signal),
		FILE_TEST(a_full_disk_leaves_the_file_as_it_was),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
