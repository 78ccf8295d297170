/* SPDX-License-Identifier: MIT */
/* What the kernel says of a process's memory. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/memory.h"

static const char text[] = "Name:\tRss\n"
			   "VmRSS:\t    1234 kB\n"
			   "RssAnon:\t 7 kB\n"
			   "Pss_Dirty:   9 kB\n"
			   "Pss:   11 kB\n"
			   "Broken:  12\n"
			   "Other:  12 MB\n"
			   "Large:  99999999999999999999 kB\n"
			   "Last:  0 kB";

static void lines_are_found_by_their_whole_key(void **state)
{
	assert_int_equal(mt_memory_parse(text, "VmRSS"), 1234 * 1024);
	assert_int_equal(mt_memory_parse(text, "RssAnon"), 7 * 1024);
	assert_int_equal(mt_memory_parse(text, "Pss"), 11 * 1024);
	assert_int_equal(mt_memory_parse(text, "Last"), 0);
}

static void what_is_not_there_is_not_known(void **state)
{
	assert_int_equal(mt_memory_parse(text, "Rss"), MT_MEMORY_UNKNOWN);
	assert_int_equal(mt_memory_parse(text, "Broken"), MT_MEMORY_UNKNOWN);
	assert_int_equal(mt_memory_parse(text, "Other"), MT_MEMORY_UNKNOWN);
	assert_int_equal(mt_memory_parse(text, "Large"), MT_MEMORY_UNKNOWN);
	assert_int_equal(mt_memory_parse("", "Pss"), MT_MEMORY_UNKNOWN);
	assert_int_equal(mt_memory_parse(NULL, "Pss"), MT_MEMORY_UNKNOWN);
}

static void our_own_memory_grows_by_what_we_touch(void **state)
{
	enum { BYTES = 32 << 20 };
	struct mt_memory before, after;
	char *block;

	mt_memory_read_pss(getpid(), &before);
	block = malloc(BYTES);
	assert_non_null(block);
	memset(block, 1, BYTES);
	mt_memory_read_pss(getpid(), &after);
	free(block);
	assert_true(after.rss_bytes - before.rss_bytes >= BYTES / 2);
	assert_true(after.anon_bytes - before.anon_bytes >= BYTES / 2);
	if (before.pss_bytes != MT_MEMORY_UNKNOWN) /* a kernel without smaps_rollup */
		assert_true(after.pss_bytes - before.pss_bytes >= BYTES / 2);
	mt_memory_read(getpid(), &after);
	assert_int_equal(after.pss_bytes, MT_MEMORY_UNKNOWN);
}

static void nothing_is_known_of_a_process_that_is_not_there(void **state)
{
	struct mt_memory m;

	mt_memory_read_pss(4194400, &m); /* above the kernel's largest pid */
	assert_int_equal(m.rss_bytes, MT_MEMORY_UNKNOWN);
	assert_int_equal(m.anon_bytes, MT_MEMORY_UNKNOWN);
	assert_int_equal(m.swap_bytes, MT_MEMORY_UNKNOWN);
	assert_int_equal(m.pss_bytes, MT_MEMORY_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(lines_are_found_by_their_whole_key),
		cmocka_unit_test(what_is_not_there_is_not_known),
		cmocka_unit_test(our_own_memory_grows_by_what_we_touch),
		cmocka_unit_test(nothing_is_known_of_a_process_that_is_not_there),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
