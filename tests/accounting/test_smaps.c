/* SPDX-License-Identifier: MIT */
/* Texts of maps, smaps and smaps_rollup, as kernels write them and as nobody should. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "target/smaps.h"

static int parse_len(const char *text, size_t len, struct mt_smaps *s, struct mt_err *err)
{
	char *copy = malloc(len + 1);

	assert_non_null(copy);
	memcpy(copy, text, len);
	copy[len] = 0;
	return mt_smaps_parse(copy, len, "x", s, err);
}

static void parse(const char *text, struct mt_smaps *s)
{
	struct mt_err err = {0};

	assert_int_equal(parse_len(text, strlen(text), s, &err), 0);
}

#define HEADER "00400000-00452000 r-xp 00001000 08:02 173521      /usr/bin/dbus-daemon\n"

static const char usual[] = HEADER "Size:                328 kB\n"
				   "KernelPageSize:        4 kB\n"
				   "MMUPageSize:           4 kB\n"
				   "Rss:                 300 kB\n"
				   "Pss:                 150 kB\n"
				   "Pss_Dirty:             7 kB\n"
				   "Shared_Clean:        100 kB\n"
				   "Shared_Dirty:         10 kB\n"
				   "Private_Clean:       180 kB\n"
				   "Private_Dirty:        11 kB\n"
				   "Referenced:          299 kB\n"
				   "Anonymous:            12 kB\n"
				   "KSM:                   1 kB\n"
				   "LazyFree:              2 kB\n"
				   "AnonHugePages:         3 kB\n"
				   "ShmemPmdMapped:        4 kB\n"
				   "FilePmdMapped:         5 kB\n"
				   "Shared_Hugetlb:        6 kB\n"
				   "Private_Hugetlb:       8 kB\n"
				   "Swap:                 13 kB\n"
				   "SwapPss:              14 kB\n"
				   "Locked:               15 kB\n"
				   "THPeligible:           1\n"
				   "ProtectionKey:         0\n"
				   "VmFlags: rd ex mr mw me sd\n";

static void every_field_of_smaps_is_read_in_bytes(void **state)
{
	static const uint64_t kib[MT_SMAPS_FIELDS] = {
		[MT_SMAPS_RSS] = 300,          [MT_SMAPS_PSS] = 150,
		[MT_SMAPS_PSS_DIRTY] = 7,      [MT_SMAPS_SHARED_CLEAN] = 100,
		[MT_SMAPS_SHARED_DIRTY] = 10,  [MT_SMAPS_PRIVATE_CLEAN] = 180,
		[MT_SMAPS_PRIVATE_DIRTY] = 11, [MT_SMAPS_REFERENCED] = 299,
		[MT_SMAPS_ANONYMOUS] = 12,     [MT_SMAPS_KSM] = 1,
		[MT_SMAPS_LAZY_FREE] = 2,      [MT_SMAPS_ANON_HUGE] = 3,
		[MT_SMAPS_SHMEM_HUGE] = 4,     [MT_SMAPS_FILE_HUGE] = 5,
		[MT_SMAPS_SHARED_HUGETLB] = 6, [MT_SMAPS_PRIVATE_HUGETLB] = 8,
		[MT_SMAPS_SWAP] = 13,          [MT_SMAPS_SWAP_PSS] = 14,
		[MT_SMAPS_LOCKED] = 15};
	struct mt_smaps s;
	const struct mt_smaps_mapping *v;

	parse(usual, &s);
	v = &s.mapping[0];
	assert_int_equal(s.count, 1);
	assert_int_equal(s.kind, MT_SMAPS_FULL);
	assert_int_equal(v->m.start, 0x400000);
	assert_int_equal(v->m.end, 0x452000);
	assert_int_equal(v->m.offset, 0x1000);
	assert_int_equal(v->m.device, 8 << 20 | 2);
	assert_int_equal(v->m.inode, 173521);
	assert_int_equal(v->m.flags, MT_MAPPING_READ | MT_MAPPING_EXEC);
	assert_string_equal(v->m.name, "/usr/bin/dbus-daemon");
	assert_string_equal(v->vm_flags, "rd ex mr mw me sd");
	assert_int_equal(v->thp_eligible, 1);
	assert_int_equal(v->sum.size_bytes, 0x52000);
	for (int i = 0; i < MT_SMAPS_FIELDS; i++) {
		assert_int_equal(v->sum.bytes[i], kib[i] * 1024);
		assert_int_equal(mt_smaps_has(&v->sum, (enum mt_smaps_field)i), kib[i] != 0);
	}
	assert_int_equal(mt_smaps_uss(&v->sum), 191 * 1024);
	assert_int_equal(mt_smaps_shared(&v->sum), 110 * 1024);
	assert_int_equal(mt_smaps_file(&v->sum), 288 * 1024);
	assert_int_equal(mt_smaps_huge(&v->sum), 26 * 1024);
	assert_int_equal(s.doubts.bad_lines, 0);
	assert_int_equal(s.doubts.unknown_fields, 0);
	assert_int_equal(s.doubts.incomplete, 0);
	assert_false(s.doubts.is_cut);
	mt_smaps_done(&s);
}

static void names_stay_as_the_kernel_wrote_them(void **state)
{
	static const char *const names[] = {"/tmp/a b  c",
					    "/tmp/x\\012Rss: 5 kB",
					    "/tmp/gone (deleted)",
					    "/memfd:a (deleted)",
					    "[anon:dalvik-main space]",
					    "/a\tb",
					    "/\xff\xfe",
					    "",
					    "[stack]"};
	char text[4096] = "";
	size_t len = 0;
	struct mt_smaps s;

	for (size_t i = 0; i < MT_ARRAY_LEN(names); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len,
					"%zx000-%zx000 rw-s 00000000 00:05 1%s%s\n", i + 1, i + 2,
					*names[i] ? "   " : "", names[i]);
	parse(text, &s);
	assert_int_equal(s.count, MT_ARRAY_LEN(names));
	for (size_t i = 0; i < s.count; i++)
		assert_string_equal(s.mapping[i].m.name, names[i]);
	assert_int_equal(s.kind, MT_SMAPS_MAPS);
	assert_int_equal(s.mapping[0].m.flags,
			 MT_MAPPING_READ | MT_MAPPING_WRITE | MT_MAPPING_SHARED);
	assert_int_equal(s.doubts.bad_lines, 0);
	mt_smaps_done(&s);
}

static void tabs_carriage_returns_and_short_addresses_are_fine(void **state)
{
	struct mt_smaps s;

	parse("8000-9000\trwxp\t00000000\t1f:03\t12\t/system/bin/sh\r\n"
	      "Rss:\t\t  8 kB\r\n"
	      "\r\n"
	      "ffff0000-ffff1000 r-xp 00000000 00:00 0          [vectors]",
	      &s);
	assert_int_equal(s.count, 2);
	assert_string_equal(s.mapping[0].m.name, "/system/bin/sh");
	assert_int_equal(s.mapping[0].sum.bytes[MT_SMAPS_RSS], 8192);
	assert_int_equal(s.mapping[1].m.end, 0xffff1000);
	assert_int_equal(s.doubts.bad_lines, 0);
	assert_true(s.is_android);
	mt_smaps_done(&s);
}

static void the_whole_range_of_addresses_is_read(void **state)
{
	struct mt_smaps s;

	parse("ffffffffff600000-ffffffffff601000 --xp 00000000 00:00 0  [vsyscall]\n", &s);
	assert_int_equal(s.mapping[0].m.start, 0xffffffffff600000);
	mt_smaps_done(&s);
}

static void what_is_not_understood_is_counted_and_named(void **state)
{
	struct mt_smaps s;

	parse(HEADER "Rss:  4 kB\n"
		     "NewField:  12 kB\n"
		     "NewWords:  some words\n"
		     "Pss:  4 MB\n"           /* line 5 */
		     "Swap:  kB\n"            /* 6 */
		     "Private_Dirty: 1 kBx\n" /* 7 */
		     "THPeligible:   \n"      /* 8 */
		     "no field at all\n",     /* 9 */
	      &s);
	assert_int_equal(s.doubts.unknown_fields, 2);
	assert_string_equal(s.doubts.first_unknown_name, "NewField");
	assert_int_equal(s.doubts.bad_lines, 5);
	assert_int_equal(s.doubts.first_bad_line, 5);
	assert_string_equal(s.doubts.first_bad_text, "Pss:  4 MB");
	assert_int_equal(s.mapping[0].sum.known, 1u << MT_SMAPS_RSS);
	mt_smaps_done(&s);
}

static void numbers_that_do_not_fit_are_no_numbers(void **state)
{
	struct mt_smaps s;

	parse(HEADER "Rss:  18014398509481983 kB\n"
		     "Pss:  18014398509481984 kB\n"
		     "Swap:  99999999999999999999999 kB\n",
	      &s);
	assert_int_equal(s.mapping[0].sum.bytes[MT_SMAPS_RSS], UINT64_MAX - 1023);
	assert_int_equal(s.mapping[0].sum.known, 1u << MT_SMAPS_RSS);
	assert_int_equal(s.doubts.bad_lines, 2);
	mt_smaps_done(&s);
}

static void sums_stop_at_the_largest_number(void **state)
{
	struct mt_smaps_sum total;
	struct mt_smaps s;

	parse("0-ffffffffffffffff rw-p 0 0:0 0\nRss: 18014398509481983 kB\n"
	      "0-ffffffffffffffff rw-p 0 0:0 0\nRss: 1 kB\n",
	      &s);
	mt_smaps_total(&s, &total);
	assert_int_equal(total.bytes[MT_SMAPS_RSS], UINT64_MAX);
	assert_int_equal(total.size_bytes, UINT64_MAX);
	assert_int_equal(total.mappings, 2);
	assert_int_equal(s.doubts.disordered, 1);
	mt_smaps_done(&s);
}

static void fields_after_a_broken_mapping_belong_to_nobody(void **state)
{
	static const char *const broken[] = {
		"500000-600000 rwxq 00000000 00:00 0",   "500000-500000 rw-p 00000000 00:00 0",
		"600000-500000 rw-p 00000000 00:00 0",   "500000-600000 rw-p 00000000 00:00",
		"500000-600000 rw-p 00000000 0000 0",    "500000-600000 rw- 00000000 00:00 0",
		"500000- rw-p 00000000 00:00 0",         "500000-600000",
		"500000-1ffffffffffffffff rw-p 0 0:0 0", "500000-600000 rw-p 0 0:0 0x"};

	for (size_t i = 0; i < MT_ARRAY_LEN(broken); i++) {
		struct mt_smaps s;
		char text[512];

		snprintf(text, sizeof(text), "%sRss:  4 kB\n%s\nRss:  8 kB\nPss:  8 kB\n", HEADER,
			 broken[i]);
		parse(text, &s);
		assert_int_equal(s.count, 1);
		assert_int_equal(s.mapping[0].sum.bytes[MT_SMAPS_RSS], 4096);
		assert_int_equal(s.mapping[0].sum.known, 1u << MT_SMAPS_RSS);
		assert_int_equal(s.doubts.bad_lines, 3);
		assert_int_equal(s.doubts.first_bad_line, 3);
		mt_smaps_done(&s);
	}
}

static void of_a_field_given_twice_the_first_one_counts(void **state)
{
	struct mt_smaps s;

	parse(HEADER "Rss:  4 kB\nRss:  400 kB\n", &s);
	assert_int_equal(s.mapping[0].sum.bytes[MT_SMAPS_RSS], 4096);
	assert_int_equal(s.doubts.repeated_fields, 1);
	mt_smaps_done(&s);
}

static void mappings_that_lack_fields_are_counted(void **state)
{
	struct mt_smaps s;

	parse(HEADER "Rss:  4 kB\nPss:  4 kB\n"
		     "500000-600000 rw-p 00000000 00:00 0\nRss:  4 kB\n",
	      &s);
	assert_int_equal(s.doubts.incomplete, 1);
	mt_smaps_done(&s);
}

/* Wherever the text ends, no part of a number is taken for one, and a cut mapping or field is told.
 */
static void a_text_may_end_anywhere(void **state)
{
	const size_t whole = sizeof(usual) - 1;

	for (size_t len = 0; len < whole; len++) {
		struct mt_smaps s;
		struct mt_err err = {0};
		int code = parse_len(usual, len, &s, &err);

		if (code) {
			assert_int_equal(code, -EINVAL);
			assert_true(len < sizeof(HEADER));
			assert_int_equal(err.code, -EINVAL);
			continue;
		}
		assert_int_equal(s.count, 1);
		for (int i = 0; i < MT_SMAPS_FIELDS; i++)
			if (mt_smaps_has(&s.mapping[0].sum, (enum mt_smaps_field)i))
				assert_int_not_equal(s.mapping[0].sum.bytes[i], 0);
		if (mt_smaps_has(&s.mapping[0].sum, MT_SMAPS_RSS))
			assert_int_equal(s.mapping[0].sum.bytes[MT_SMAPS_RSS], 300 * 1024);
		if (s.doubts.bad_lines)
			assert_true(s.doubts.is_cut);
		mt_smaps_done(&s);
	}
}

static void a_rollup_is_known_by_its_name(void **state)
{
	struct mt_smaps s;

	parse("00400000-7ffd6b1e2000 ---p 00000000 00:00 0                          [rollup]\n"
	      "Rss:  884 kB\nPss:  385 kB\nPss_Anon:  301 kB\n",
	      &s);
	assert_int_equal(s.kind, MT_SMAPS_ROLLUP);
	assert_int_equal(s.mapping[0].sum.bytes[MT_SMAPS_PSS_ANON], 301 * 1024);
	mt_smaps_done(&s);
}

static void a_text_without_mappings_is_refused_with_its_first_line(void **state)
{
	struct mt_smaps s;
	struct mt_err err = {0};

	assert_int_equal(parse_len("", 0, &s, &err), -EINVAL);
	assert_string_equal(err.text, "'x' is empty: there is no mapping in it");
	assert_int_equal(parse_len("\nRss: 4 kB\n", 11, &s, &err), -EINVAL);
	assert_string_equal(err.text,
			    "'x', line 2: 'Rss: 4 kB' is no line of maps, smaps or smaps_rollup");
}

static void a_line_with_a_zero_byte_is_none(void **state)
{
	static const char text[] =
		HEADER "Rss:  4 kB\n500000-600000 rw-p 0 0:0 0 /a\0b\nPss:  4 kB\nS\0wap: 1 kB\n";
	struct mt_smaps s;
	struct mt_err err = {0};

	assert_int_equal(parse_len(text, sizeof(text) - 1, &s, &err), 0);
	assert_int_equal(s.count, 1);
	assert_int_equal(s.mapping[0].sum.known, 1u << MT_SMAPS_RSS);
	assert_int_equal(s.doubts.bad_lines, 3);
	mt_smaps_done(&s);
}

static void our_own_mappings_can_be_read(void **state)
{
	struct mt_smaps s;
	struct mt_smaps_sum sum, maps;
	struct mt_err err = {0};

	assert_int_equal(mt_smaps_read(getpid(), MT_SMAPS_FULL, &s, &err), 0);
	mt_smaps_total(&s, &sum);
	assert_true(mt_smaps_has(&sum, MT_SMAPS_RSS) && sum.bytes[MT_SMAPS_RSS] > 100 << 10);
	assert_int_equal(s.doubts.bad_lines, 0);
	assert_int_equal(s.doubts.disordered, 0);
	mt_smaps_done(&s);
	assert_int_equal(mt_smaps_read(getpid(), MT_SMAPS_MAPS, &s, &err), 0);
	mt_smaps_total(&s, &maps);
	assert_int_equal(maps.known, 0);
	mt_smaps_done(&s);
}

static void a_process_that_is_not_there_is_told(void **state)
{
	struct mt_smaps s;
	struct mt_err err = {0};

	assert_int_equal(mt_smaps_read(4194400, MT_SMAPS_FULL, &s, &err), -ESRCH);
	assert_string_equal(err.text, "there is no process 4194400");
	assert_int_equal(mt_smaps_read(0, MT_SMAPS_FULL, &s, &err), -ESRCH);
}

static void without_memory_nothing_is_leaked(void **state)
{
	for (size_t nth = 1;; nth++) {
		struct mt_smaps s;
		struct mt_err err = {0};
		char *text = strdup(usual);
		int code;

		assert_non_null(text);
		mt_alloc_fail_from_for_test(nth);
		code = mt_smaps_parse(text, strlen(text), "x", &s, &err);
		mt_alloc_fail_from_for_test(0);
		if (!code) {
			mt_smaps_done(&s);
			assert_true(nth > 1);
			return;
		}
		assert_int_equal(code, -ENOMEM);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_field_of_smaps_is_read_in_bytes),
		cmocka_unit_test(names_stay_as_the_kernel_wrote_them),
		cmocka_unit_test(tabs_carriage_returns_and_short_addresses_are_fine),
		cmocka_unit_test(the_whole_range_of_addresses_is_read),
		cmocka_unit_test(what_is_not_understood_is_counted_and_named),
		cmocka_unit_test(numbers_that_do_not_fit_are_no_numbers),
		cmocka_unit_test(sums_stop_at_the_largest_number),
		cmocka_unit_test(fields_after_a_broken_mapping_belong_to_nobody),
		cmocka_unit_test(of_a_field_given_twice_the_first_one_counts),
		cmocka_unit_test(mappings_that_lack_fields_are_counted),
		cmocka_unit_test(a_text_may_end_anywhere),
		cmocka_unit_test(a_rollup_is_known_by_its_name),
		cmocka_unit_test(a_text_without_mappings_is_refused_with_its_first_line),
		cmocka_unit_test(a_line_with_a_zero_byte_is_none),
		cmocka_unit_test(our_own_mappings_can_be_read),
		cmocka_unit_test(a_process_that_is_not_there_is_told),
		cmocka_unit_test(without_memory_nothing_is_leaked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
