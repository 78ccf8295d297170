/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/fmt.h"
#include "core/sys.h"

static void text_that_fits_is_kept_whole(void **state)
{
	char buf[16];
	struct mt_fmt f;
	mt_fmt_init(&f, buf, sizeof(buf));
	assert_string_equal(buf, "");
	mt_fmt_str(&f, "abc");
	mt_fmt_str(&f, "");
	mt_fmt_str(&f, "de");
	assert_string_equal(buf, "abcde");
	assert_ptr_equal(f.at, buf + 5);
}

static void text_that_does_not_fit_is_cut_and_ended(void **state)
{
	char buf[8];
	struct mt_fmt f;
	memset(buf, 'x', sizeof(buf));
	mt_fmt_init(&f, buf, 6);
	mt_fmt_str(&f, "abc");
	mt_fmt_u64(&f, 123456);
	mt_fmt_str(&f, "zz");
	assert_string_equal(buf, "abc12");
	assert_int_equal(buf[6], 'x');
	assert_int_equal(buf[7], 'x');
}

static void a_buffer_of_one_byte_holds_nothing(void **state)
{
	char buf[2] = {'x', 'y'};
	struct mt_fmt f;
	mt_fmt_init(&f, buf, 1);
	mt_fmt_str(&f, "abc");
	mt_fmt_hex(&f, 5, 3);
	assert_int_equal(buf[0], 0);
	assert_int_equal(buf[1], 'y');
}

static const uint64_t numbers[] = {0,     1,           9,           10,         99,        100,
				   65535, 4294967295u, 4294967296u, 1ull << 63, UINT64_MAX};

static void unsigned_numbers_are_those_of_printf(void **state)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(numbers); i++) {
		char buf[32], wanted[32];
		struct mt_fmt f;
		mt_fmt_init(&f, buf, sizeof(buf));
		mt_fmt_u64(&f, numbers[i]);
		snprintf(wanted, sizeof(wanted), "%ju", (uintmax_t)numbers[i]);
		assert_string_equal(buf, wanted);
	}
}

static void signed_numbers_are_those_of_printf(void **state)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(numbers); i++)
		for (int sign = 0; sign < 2; sign++) {
			int64_t v = sign ? (int64_t)(0 - numbers[i]) : (int64_t)numbers[i];
			char buf[32], wanted[32];
			struct mt_fmt f;
			mt_fmt_init(&f, buf, sizeof(buf));
			mt_fmt_i64(&f, v);
			snprintf(wanted, sizeof(wanted), "%jd", (intmax_t)v);
			assert_string_equal(buf, wanted);
		}
}

static void hexadecimal_is_that_of_printf(void **state)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(numbers); i++)
		for (unsigned digits = 0; digits <= 20; digits++) {
			char buf[32], wanted[32];
			struct mt_fmt f;
			mt_fmt_init(&f, buf, sizeof(buf));
			mt_fmt_hex(&f, numbers[i], digits);
			snprintf(wanted, sizeof(wanted), "%0*jx", (int)digits,
				 (uintmax_t)numbers[i]);
			assert_string_equal(buf, wanted);
		}
}

static void parsing_stops_behind_the_digits(void **state)
{
	const char *text = "120G", *s = text;
	uint64_t v = 7;
	assert_int_equal(mt_fmt_parse_u64(&s, &v), 0);
	assert_int_equal(v, 120);
	assert_ptr_equal(s, text + 3);
}

static void the_largest_number_is_parsed_and_one_more_is_refused(void **state)
{
	const char *s = "18446744073709551615";
	uint64_t v = 7;
	assert_int_equal(mt_fmt_parse_u64(&s, &v), 0);
	assert_true(v == UINT64_MAX);
	const char *text = "18446744073709551616";
	s = text;
	v = 7;
	assert_int_equal(mt_fmt_parse_u64(&s, &v), -MT_EINVAL);
	assert_ptr_equal(s, text);
	assert_int_equal(v, 7);
}

static void text_without_digit_is_refused(void **state)
{
	static const char *const bad[] = {"", "x", "-1", "+1", " 1"};
	for (size_t i = 0; i < MT_ARRAY_LEN(bad); i++) {
		const char *s = bad[i];
		uint64_t v = 7;
		assert_int_equal(mt_fmt_parse_u64(&s, &v), -MT_EINVAL);
		assert_ptr_equal(s, bad[i]);
		assert_int_equal(v, 7);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_that_fits_is_kept_whole),
		cmocka_unit_test(text_that_does_not_fit_is_cut_and_ended),
		cmocka_unit_test(a_buffer_of_one_byte_holds_nothing),
		cmocka_unit_test(unsigned_numbers_are_those_of_printf),
		cmocka_unit_test(signed_numbers_are_those_of_printf),
		cmocka_unit_test(hexadecimal_is_that_of_printf),
		cmocka_unit_test(parsing_stops_behind_the_digits),
		cmocka_unit_test(the_largest_number_is_parsed_and_one_more_is_refused),
		cmocka_unit_test(text_without_digit_is_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
