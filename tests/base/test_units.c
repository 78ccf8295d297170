/* SPDX-License-Identifier: MIT */
#include "test_all.h"

#include "base/units.h"

static void assert_size(const char *text, uint64_t want)
{
	uint64_t bytes = 99;
	if (mt_units_parse_size(text, &bytes) || bytes != want)
		fail_msg("'%s' gave %llu", text, (unsigned long long)bytes);
}

static void sizes_are_read(void **state)
{
	assert_size("0", 0);
	assert_size("512", 512);
	assert_size("512B", 512);
	assert_size("1K", 1024);
	assert_size("1k", 1024);
	assert_size("1KB", 1024);
	assert_size("3KiB", 3072);
	assert_size("2M", 2 << 20);
	assert_size("1.5M", 3 << 19);
	assert_size("1G", 1 << 30);
	assert_size("4T", 4ull << 40);
	assert_size("0.001K", 1);
	assert_size("18446744073709551615", UINT64_MAX);
}

static void wrong_sizes_are_refused_and_change_nothing(void **state)
{
	static const char *const wrong[] = {"",     "K",   "x",      "-1",   "+1",  " 1",
					    "1 K",  "1X",  "1.5",    "1.K",  "1KK", "1KiX",
					    "0x10", "1e3", "1.5.5M", "1,024"};
	uint64_t bytes = 99;
	for (size_t i = 0; i < MT_ARRAY_LEN(wrong); i++)
		if (mt_units_parse_size(wrong[i], &bytes) != -EINVAL)
			fail_msg("'%s' was taken", wrong[i]);
	assert_int_equal(mt_units_parse_size("18446744073709551616", &bytes), -ERANGE);
	assert_int_equal(mt_units_parse_size("16777216T", &bytes), -ERANGE);
	assert_int_equal(bytes, 99);
}

static void assert_time(const char *text, uint64_t want)
{
	uint64_t ns = 99;
	if (mt_units_parse_time(text, &ns) || ns != want)
		fail_msg("'%s' gave %llu", text, (unsigned long long)ns);
}

static void times_are_read(void **state)
{
	assert_time("0", 0);
	assert_time("5", 5000000000u);
	assert_time("0.5", 500000000u);
	assert_time("10ns", 10);
	assert_time("10us", 10000);
	assert_time("10ms", 10000000);
	assert_time("1.5s", 1500000000u);
	assert_time("2m", 120000000000u);
	assert_time("2min", 120000000000u);
	assert_time("1h", 3600000000000u);
	assert_time("1d", 86400000000000u);
	assert_time("1m30s", 90000000000u);
	assert_time("1h1m1s1ms", 3661001000000u);
}

static void wrong_times_are_refused(void **state)
{
	static const char *const wrong[] = {"", "s", "1x", "-1s", "1m30", "1 s", "1ss", "m1"};
	uint64_t ns = 99;
	for (size_t i = 0; i < MT_ARRAY_LEN(wrong); i++)
		if (mt_units_parse_time(wrong[i], &ns) != -EINVAL)
			fail_msg("'%s' was taken", wrong[i]);
	assert_int_equal(mt_units_parse_time("99999999999d", &ns), -ERANGE);
	assert_int_equal(mt_units_parse_time("213503d213503d", &ns), -ERANGE);
	assert_int_equal(ns, 99);
}

static void counts_are_read(void **state)
{
	uint64_t n = 99;
	assert_int_equal(mt_units_parse_count("123", &n), 0);
	assert_int_equal(n, 123);
	assert_int_equal(mt_units_parse_count("1.0", &n), -EINVAL);
	assert_int_equal(mt_units_parse_count("1K", &n), -EINVAL);
	assert_int_equal(mt_units_parse_count("", &n), -EINVAL);
	assert_int_equal(mt_units_parse_count("99999999999999999999", &n), -ERANGE);
	assert_int_equal(n, 123);
}

static void sizes_are_written(void **state)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {
		{0, "0 B"},
		{1, "1 B"},
		{1023, "1023 B"},
		{1024, "1.0 KiB"},
		{1536, "1.5 KiB"},
		{1075, "1.0 KiB"},
		{1076, "1.1 KiB"},
		{102347, "99.9 KiB"},
		{102400, "100 KiB"},
		{1047552, "1023 KiB"},
		{1048063, "1023 KiB"},
		{1048064, "1.0 MiB"}, /* never "1024 KiB" */
		{1048576, "1.0 MiB"},
		{1258291, "1.2 MiB"},
		{125627793408, "117 GiB"},
		{1ull << 40, "1.0 TiB"},
		{UINT64_MAX, "16.0 EiB"},
	};
	char text[MT_UNITS_TEXT_MAX];
	for (size_t i = 0; i < MT_ARRAY_LEN(cases); i++)
		assert_string_equal(mt_units_size(cases[i].bytes, text), cases[i].text);
}

static void signs_are_written(void **state)
{
	char text[MT_UNITS_TEXT_MAX];
	assert_string_equal(mt_units_size_signed(0, text), "0 B");
	assert_string_equal(mt_units_size_signed(1258291, text), "+1.2 MiB");
	assert_string_equal(mt_units_size_signed(-3, text), "-3 B");
	assert_string_equal(mt_units_size_signed(INT64_MIN, text), "-8.0 EiB");
	assert_string_equal(mt_units_count_signed(1234, text), "+1,234");
	assert_string_equal(mt_units_count_signed(-1, text), "-1");
	assert_string_equal(mt_units_count_signed(INT64_MIN, text), "-9,223,372,036,854,775,808");
}

static void times_are_written(void **state)
{
	static const struct {
		uint64_t ns;
		const char *text;
	} cases[] = {
		{0, "0 ns"},
		{999, "999 ns"},
		{12000, "12.0 us"},
		{999499, "999 us"},
		{999500, "1.0 ms"},
		{3400000, "3.4 ms"},
		{999500000, "1.0 s"},
		{56100000000, "56.1 s"},
		{187000000000, "3 min 07 s"},
		{7500000000000, "2 h 05 min"},
		{273600000000000, "3 d 04 h"},
		{UINT64_MAX, "213503 d 23 h"},
	};
	char text[MT_UNITS_TEXT_MAX];
	for (size_t i = 0; i < MT_ARRAY_LEN(cases); i++)
		assert_string_equal(mt_units_time(cases[i].ns, text), cases[i].text);
}

static void counts_are_written_in_groups(void **state)
{
	char text[MT_UNITS_TEXT_MAX];
	assert_string_equal(mt_units_count(0, text), "0");
	assert_string_equal(mt_units_count(999, text), "999");
	assert_string_equal(mt_units_count(1000, text), "1,000");
	assert_string_equal(mt_units_count(1234567, text), "1,234,567");
	assert_string_equal(mt_units_count(UINT64_MAX, text), "18,446,744,073,709,551,615");
}

static void percent_is_rounded_to_one_decimal(void **state)
{
	char text[MT_UNITS_TEXT_MAX];
	assert_string_equal(mt_units_percent(1, 3, text), "33.3 %");
	assert_string_equal(mt_units_percent(2, 3, text), "66.7 %");
	assert_string_equal(mt_units_percent(5, 5, text), "100.0 %");
	assert_string_equal(mt_units_percent(5, 0, text), "0.0 %");
	assert_string_equal(mt_units_percent(UINT64_MAX, UINT64_MAX, text), "100.0 %");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(sizes_are_read),
		cmocka_unit_test(wrong_sizes_are_refused_and_change_nothing),
		cmocka_unit_test(times_are_read),
		cmocka_unit_test(wrong_times_are_refused),
		cmocka_unit_test(counts_are_read),
		cmocka_unit_test(sizes_are_written),
		cmocka_unit_test(signs_are_written),
		cmocka_unit_test(times_are_written),
		cmocka_unit_test(counts_are_written_in_groups),
		cmocka_unit_test(percent_is_rounded_to_one_decimal),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
