/* SPDX-License-Identifier: MIT */
/* Nothing that a hostile name holds reaches the terminal as it is. */

#include "test_all.h"

#include <string.h>

#include "base/escape.h"

static void expect(const char *text, const char *escaped)
{
	mt_auto(mt_buf) struct mt_buf once = {0}, twice = {0};

	assert_int_equal(mt_escape(&once, text), 0);
	assert_string_equal(mt_buf_text(&once), escaped);
	assert_int_equal(mt_escape(&twice, mt_buf_text(&once)), 0);
	assert_string_equal(mt_buf_text(&twice), escaped);
}

static void plain_text_stays(void **state)
{
	expect("", "");
	expect("std::vector<int>::push_back(int&&) [with \"x\"] C:\\dir",
	       "std::vector<int>::push_back(int&&) [with \"x\"] C:\\dir");
	expect("gr\xc3\xbc\xc3\x9f \xe4\xb8\xad \xf0\x9f\x98\x80",
	       "gr\xc3\xbc\xc3\x9f \xe4\xb8\xad \xf0\x9f\x98\x80");
}

static void control_bytes_are_written_out(void **state)
{
	expect("a\nb\tc\rd", "a\\nb\\tc\\rd");
	expect("\033[31mred\033]0;title\a", "\\x1b[31mred\\x1b]0;title\\x07");
	expect("\x01\x1f\x7f", "\\x01\\x1f\\x7f");
}

static void bytes_that_are_no_utf8_are_written_out(void **state)
{
	expect("\xff", "\\xff");
	expect("a\xc3", "a\\xc3");
	expect("\xc0\xaf", "\\xc0\\xaf");                   /* overlong */
	expect("\xe0\x80\xaf", "\\xe0\\x80\\xaf");          /* overlong */
	expect("\xed\xa0\x80", "\\xed\\xa0\\x80");          /* surrogate */
	expect("\xf4\x90\x80\x80", "\\xf4\\x90\\x80\\x80"); /* above U+10FFFF */
	expect("\xf0\x80\x80\xaf", "\\xf0\\x80\\x80\\xaf");
	expect("\x9b"
	       "31m",
	       "\\x9b31m"); /* CSI as one byte */
}

static void controls_of_unicode_are_written_out(void **state)
{
	expect("\xc2\x9b"
	       "31m",
	       "\\u{9b}31m");
	expect("\xe2\x80\xae"
	       "gpj.exe",
	       "\\u{202e}gpj.exe");
	expect("a\xe2\x80\xa8"
	       "b\xe2\x81\xa6"
	       "c\xef\xbb\xbf",
	       "a\\u{2028}b\\u{2066}c\\u{feff}");
	expect("\xc2\xa0", "\xc2\xa0");
}

static void every_single_byte_gives_a_clean_line(void **state)
{
	for (int i = 1; i < 256; i++) {
		mt_auto(mt_buf) struct mt_buf out = {0};
		const char text[2] = {(char)i, 0};

		assert_int_equal(mt_escape(&out, text), 0);
		for (const char *s = mt_buf_text(&out); *s; s++)
			assert_in_range((unsigned char)*s, ' ', '~');
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(plain_text_stays),
		cmocka_unit_test(control_bytes_are_written_out),
		cmocka_unit_test(bytes_that_are_no_utf8_are_written_out),
		cmocka_unit_test(controls_of_unicode_are_written_out),
		cmocka_unit_test(every_single_byte_gives_a_clean_line),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
