/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/mem.h"

static void copy_and_zero_touch_their_range_only(void **state)
{
	for (size_t len = 0; len < 40; len++) {
		unsigned char from[48], to[48], wanted[48];
		for (size_t i = 0; i < sizeof(from); i++)
			from[i] = (unsigned char)(i + 1);
		memset(to, 0xee, sizeof(to));
		memset(wanted, 0xee, sizeof(wanted));
		mt_mem_copy(to + 3, from, len);
		memcpy(wanted + 3, from, len);
		assert_memory_equal(to, wanted, sizeof(to));
		mt_mem_zero(to + 5, len);
		memset(wanted + 5, 0, len);
		assert_memory_equal(to, wanted, sizeof(to));
	}
}

static void equality_looks_at_every_byte_and_no_further(void **state)
{
	char a[] = "abcdefgh", b[] = "abcdefgX";
	assert_true(mt_mem_equal(a, b, 7));
	assert_false(mt_mem_equal(a, b, 8));
	assert_true(mt_mem_equal(a, b, 0));
	b[0] = 'X';
	assert_false(mt_mem_equal(a, b, 1));
}

enum { FILLED_MOST = 300, FROM = 3 };

static void a_fill_touches_its_range_only(void **state)
{
	for (size_t len = 0; len <= FILLED_MOST; len++) {
		unsigned char is[FILLED_MOST + 16], wanted[sizeof(is)];
		memset(is, 0x11, sizeof(is));
		memset(wanted, 0x11, sizeof(wanted));
		memset(wanted + FROM, 0xef, len);
		mt_mem_fill(is + FROM, 0xef, len);
		assert_memory_equal(is, wanted, sizeof(is));
	}
}

static void the_first_difference_is_found_wherever_it_is(void **state)
{
	for (size_t len = 0; len <= FILLED_MOST; len++) {
		unsigned char is[FILLED_MOST + 16];
		memset(is, 0x11, sizeof(is));
		memset(is + FROM, 0xef, len);
		assert_int_equal(mt_mem_differs(is + FROM, 0xef, len), len);
		for (size_t at = len; at-- > 0;) { /* what was changed before lies behind */
			is[FROM + at] ^= (unsigned char)(1 << at % 8);
			assert_int_equal(mt_mem_differs(is + FROM, 0xef, len), at);
		}
	}
}

static void strings_compare_as_a_whole(void **state)
{
	assert_true(mt_str_equal("", ""));
	assert_true(mt_str_equal("abc", "abc"));
	assert_false(mt_str_equal("abc", "abcd"));
	assert_false(mt_str_equal("abcd", "abc"));
	assert_false(mt_str_equal("abc", "abd"));
	assert_int_equal(mt_str_len(""), 0);
	assert_int_equal(mt_str_len("12345"), 5);
}

static void prefixes_are_found_at_the_start_only(void **state)
{
	assert_true(mt_str_starts("MEMTRACK_MODE=off", "MEMTRACK_MODE"));
	assert_true(mt_str_starts("x", ""));
	assert_true(mt_str_starts("", ""));
	assert_false(mt_str_starts("", "x"));
	assert_false(mt_str_starts("MEM", "MEMTRACK"));
	assert_false(mt_str_starts("xMEM", "MEM"));
}

static void alignment_keeps_64_bits(void **state)
{
	uint64_t high = 0x123456789abcdef0u;
	assert_true(MT_ALIGN_UP(high, 4096) == 0x123456789abce000u);
	assert_true(MT_ALIGN_DOWN(high, 4096) == 0x123456789abcd000u);
	assert_true(MT_ALIGN_UP((uint64_t)4096, 4096) == 4096);
}

static void products_that_overflow_are_refused(void **state)
{
	size_t product = 7;
	assert_true(mt_mul_size(SIZE_MAX, 2, &product));
	assert_false(mt_mul_size(SIZE_MAX / 2, 2, &product));
	assert_true(product == SIZE_MAX - 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(copy_and_zero_touch_their_range_only),
		cmocka_unit_test(equality_looks_at_every_byte_and_no_further),
		cmocka_unit_test(a_fill_touches_its_range_only),
		cmocka_unit_test(the_first_difference_is_found_wherever_it_is),
		cmocka_unit_test(strings_compare_as_a_whole),
		cmocka_unit_test(prefixes_are_found_at_the_start_only),
		cmocka_unit_test(alignment_keeps_64_bits),
		cmocka_unit_test(products_that_overflow_are_refused),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
