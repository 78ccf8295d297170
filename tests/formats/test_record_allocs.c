/* SPDX-License-Identifier: MIT */
/* Lines of record_allocs: what Android's reader takes and says, and sums of whole texts. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/cleanup.h"
#include "formats/record_allocs_read.h"

static struct mt_record_allocs_line good(const char *text)
{
	struct mt_record_allocs_line l;
	struct mt_err err = {0};

	if (mt_record_allocs_parse(text, &l, &err))
		fail_msg("'%s': %s", text, err.text);
	return l;
}

static void bad(const char *text, const char *says)
{
	struct mt_record_allocs_line l;
	struct mt_err err = {0};

	assert_int_equal(mt_record_allocs_parse(text, &l, &err), -EBADMSG);
	assert_string_equal(err.text, says);
}

static void C142_times_are_both_there_or_not(void **state)
{
	struct mt_record_allocs_line l = good("1234: malloc 0xabd0000 20");

	assert_int_equal(l.kind, MT_RECORD_ALLOCS_MALLOC);
	assert_int_equal(l.tid, 1234);
	assert_int_equal(l.pointer, 0xabd0000);
	assert_int_equal(l.size, 20);
	assert_int_equal(l.start_ns, 0);
	assert_int_equal(l.end_ns, 0);
	l = good("1234: malloc 0xabd0000 20 1000 1020");
	assert_int_equal(l.start_ns, 1000);
	assert_int_equal(l.end_ns, 1020);
	bad("1234: malloc 0xabd0000 20 1000",
	    "Failed to read timestamps: 1234: malloc 0xabd0000 20 1000");
}

static void C143_what_is_wrong_is_said_as_Android_says_it(void **state)
{
	bad("1234: malloc 0xabd0000", "Failed to read malloc data: 1234: malloc 0xabd0000");
	bad("1234: malloc", "Failed to process line: 1234: malloc");
	bad("1: foo 0x1", "Unknown type foo: 1: foo 0x1");
	bad("1: calloc 0x1 4", "Failed to read calloc data: 1: calloc 0x1 4");
	bad("1: memalign 0x1 4", "Failed to read memalign data: 1: memalign 0x1 4");
	bad("1: realloc 0x1 0x2", "Failed to read realloc data: 1: realloc 0x1 0x2");
	bad("1 malloc 0x1 2", "Failed to process line: 1 malloc 0x1 2");
	bad("", "Failed to process line: ");
	bad("1: malloc 0x1 18446744073709551616",
	    "Failed to read malloc data: 1: malloc 0x1 18446744073709551616");
	bad("1: free 0x1 2 3 many", "Failed to read present bytes: 1: free 0x1 2 3 many");
}

static void C144_present_bytes_are_of_free_and_realloc(void **state)
{
	assert_int_equal(good("1: free 0x10 5 6 7").present_bytes, 7);
	assert_int_equal(good("1: free 0x10 5 6").present_bytes, -1);
	assert_int_equal(good("1: free 0x10").present_bytes, -1);
	assert_int_equal(good("1: malloc 0x10 4 5 6 7").present_bytes, -1);
	assert_int_equal(good("1: realloc 0x10 0x20 4 5 6 7").present_bytes, 7);
}

/* Reading and writing gives the same text. */
static void same(const char *text)
{
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_record_allocs_line l = good(text);

	mt_record_allocs_put(&out, &l);
	assert_int_equal(out.data[out.len - 1], '\n');
	mt_buf_truncate(&out, out.len - 1);
	assert_string_equal(out.data, text);
}

static void C145_lines_are_written_as_they_were_read(void **state)
{
	same("1: thread_done 0x0 2500");
	same("1: thread_done 0x0");
	same("1: memalign 0x1000 16 40 1000 1020");
	same("1: malloc 0x0 18446744073709551615");
	same("1: calloc 0x10 20 1 5 6");
	same("1: realloc 0x20 0x0 30 5 6");
	same("1: realloc 0x0 0x20 0 5 6 4096");
	same("1: free 0x10 0 0 7");
	same("-1: free 0x10");
}

/* --- whole texts --------------------------------------------------------------------------- */

static struct mt_record_allocs_stats sums(const char *text)
{
	struct mt_record_allocs_stats s;
	struct mt_err err = {0};

	if (mt_record_allocs_read_memory(text, strlen(text), "test", &s, &err))
		fail_msg("%s", err.text);
	return s;
}

static void sums_are_exact(void **state)
{
	struct mt_record_allocs_stats s = sums("7: malloc 0x10 100 1000 1010\n"
					       "7: calloc 0x20 10 20 1020 1050\n"
					       "8: memalign 0x1000 64 50 1060 1070\n"
					       "7: realloc 0x30 0x10 400 1080 1090 100\n"
					       "7: free 0x20 1100 1110 50\n"
					       "7: realloc 0x0 0x30 0 1120 1130\n"
					       "8: malloc 0x0 99\n"
					       "8: thread_done 0x0 2000\n");

	assert_int_equal(s.lines, 8);
	assert_int_equal(s.threads, 2);
	assert_int_equal(s.allocs, 4);
	assert_int_equal(s.bytes, 100 + 200 + 50 + 400);
	assert_int_equal(s.frees, 3);
	assert_int_equal(s.freed_bytes, 700);
	assert_int_equal(s.live_count, 1);
	assert_int_equal(s.live_bytes, 50);
	assert_int_equal(s.peak_bytes, 650);
	assert_int_equal(s.peak_count, 3);
	assert_int_equal(s.peak_line, 4);
	assert_int_equal(s.unknown_frees, 0);
	assert_int_equal(s.lost_blocks, 0);
	assert_int_equal(s.first_ns, 1000);
	assert_int_equal(s.last_ns, 2000);
	assert_int_equal(s.present_frees, 2);
	assert_int_equal(s.present_bytes, 150);
	assert_int_equal(s.present_of_bytes, 300);
	assert_int_equal(s.calls[MT_RECORD_ALLOCS_MALLOC].count, 2);
	assert_int_equal(s.calls[MT_RECORD_ALLOCS_MALLOC].failed, 1);
	assert_int_equal(s.calls[MT_RECORD_ALLOCS_REALLOC].failed, 0);
	assert_int_equal(s.calls[MT_RECORD_ALLOCS_CALLOC].slowest_ns, 30);
	assert_int_equal(s.calls[MT_RECORD_ALLOCS_THREAD_DONE].timed, 0);
}

static void a_block_given_before_the_line_of_its_free_is_no_error(void **state)
{
	struct mt_record_allocs_stats s = sums("1: malloc 0x10 100\n"
					       "2: malloc 0x10 30\n"
					       "1: free 0x10\n"
					       "2: free 0x10\n"
					       "1: free 0x10\n");

	assert_int_equal(s.live_count, 0);
	assert_int_equal(s.freed_bytes, 130);
	assert_int_equal(s.unknown_frees, 1);
	assert_int_equal(s.lost_blocks, 0);
	s = sums("1: malloc 0x10 100\n1: malloc 0x10 30\n1: malloc 0x10 30\n");
	assert_int_equal(s.lost_blocks, 2);
}

static void a_failed_realloc_keeps_its_block(void **state)
{
	struct mt_record_allocs_stats s = sums("1: malloc 0x10 100\n1: realloc 0x0 0x10 200\n");

	assert_int_equal(s.live_bytes, 100);
	assert_int_equal(s.calls[MT_RECORD_ALLOCS_REALLOC].failed, 1);
}

static void lines_may_end_as_elsewhere_and_not_at_all(void **state)
{
	assert_int_equal(sums("1: malloc 0x10 100\r\n\r\n1: malloc 0x20 1").lines, 2);
}

static void an_error_tells_where_it_is(void **state)
{
	static const char text[] = "1: malloc 0x10 100\n1: free\n";
	struct mt_record_allocs_stats s;
	struct mt_err err = {0};

	assert_int_equal(mt_record_allocs_read_memory(text, sizeof(text) - 1, "test", &s, &err),
			 -EBADMSG);
	assert_int_equal(err.offset, 19);
	assert_string_equal(err.text, "Failed to process line: 1: free");
	assert_int_equal(mt_record_allocs_read_memory("\n", 1, "test", &s, &err), -EBADMSG);
	assert_string_equal(err.text, "'test' has no lines of record_allocs");
}

static void a_line_without_end_is_refused(void **state)
{
	struct mt_record_allocs_stats s;
	struct mt_err err = {0};
	char text[10000];

	memset(text, '1', sizeof(text));
	assert_int_equal(mt_record_allocs_read_memory(text, sizeof(text), "test", &s, &err),
			 -EBADMSG);
	assert_string_equal(err.text, "a line is longer than 4096 bytes");
}

static void a_text_is_known_by_its_first_line(void **state)
{
	static const char yes[] = "\n1: malloc 0x10 100\ngarbage", no[] = "z 0  sz 100";

	assert_true(mt_record_allocs_is(yes, sizeof(yes) - 1));
	assert_false(mt_record_allocs_is(no, sizeof(no) - 1));
	assert_false(mt_record_allocs_is("1: malloc 0x10 1\0\n", 18));
	assert_false(mt_record_allocs_is("", 0));
}

static void large_texts_are_read_in_pieces(void **state)
{
	char name[] = "/tmp/memtrack-record-XXXXXX";
	int fd = mkstemp(name);
	FILE *f = fdopen(dup(fd), "w");
	struct mt_record_allocs_stats s;
	struct mt_err err = {0};

	unlink(name);
	for (int i = 0; i < 20000; i++)
		fprintf(f, "1: malloc 0x%x 10 %d %d\n", 16 * (i + 1), i, i + 1);
	for (int i = 0; i < 20000; i++)
		fprintf(f, "1: free 0x%x %d %d 10\n", 16 * (i + 1), i, i + 1);
	fclose(f);
	lseek(fd, 0, SEEK_SET);
	assert_int_equal(mt_record_allocs_read_fd(fd, "test", &s, &err), 0);
	assert_int_equal(s.lines, 40000);
	assert_int_equal(s.peak_bytes, 200000);
	assert_int_equal(s.live_count, 0);
	assert_int_equal(s.present_bytes, 200000);
	close(fd);
}

static void sums_are_told_in_words(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_record_allocs_stats s = sums("7: malloc 0x10 2048 1000 3000\n"
					       "7: malloc 0x20 100 3000 4000\n"
					       "7: free 0x10 4000 5000 1024\n"
					       "7: free 0x99 5000 6000\n");

	mt_record_allocs_stats_put(&s, &out);
	assert_string_equal(mt_buf_text(&out),
			    "calls 4  threads 1  time 5.0 us\n"
			    "\n"
			    "allocated                    2 blocks     2.1 KiB\n"
			    "freed                        1 blocks     2.0 KiB\n"
			    "live                         1 blocks       100 B\n"
			    "peak                         2 blocks     2.1 KiB\n"
			    "\n"
			    "call                     count     failed    mean time      slowest\n"
			    "malloc                       2          0       1.5 us       2.0 us\n"
			    "free                         2          0       1.0 us       1.0 us\n"
			    "\n"
			    "in memory when freed: 50.0 % of what was asked for (frees: 1)\n"
			    "\n"
			    "frees of blocks that no line gave: 1\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(C142_times_are_both_there_or_not),
		cmocka_unit_test(C143_what_is_wrong_is_said_as_Android_says_it),
		cmocka_unit_test(C144_present_bytes_are_of_free_and_realloc),
		cmocka_unit_test(C145_lines_are_written_as_they_were_read),
		cmocka_unit_test(sums_are_exact),
		cmocka_unit_test(a_block_given_before_the_line_of_its_free_is_no_error),
		cmocka_unit_test(a_failed_realloc_keeps_its_block),
		cmocka_unit_test(lines_may_end_as_elsewhere_and_not_at_all),
		cmocka_unit_test(an_error_tells_where_it_is),
		cmocka_unit_test(a_line_without_end_is_refused),
		cmocka_unit_test(a_text_is_known_by_its_first_line),
		cmocka_unit_test(large_texts_are_read_in_pieces),
		cmocka_unit_test(sums_are_told_in_words),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
