/* SPDX-License-Identifier: MIT */
#include "test_all.h"

#include "base/err.h"

static void set_fills_code_text_and_no_offset(void **state)
{
	struct mt_err err = {0};
	errno = 77;
	assert_int_equal(mt_err_set(&err, -EINVAL, "cannot read '%s'", "x"), -EINVAL);
	assert_int_equal(errno, 77);
	assert_int_equal(err.code, -EINVAL);
	assert_int_equal(err.offset, MT_ERR_NO_OFFSET);
	assert_string_equal(err.text, "cannot read 'x'");
}

static void set_at_keeps_the_offset(void **state)
{
	struct mt_err err;
	assert_int_equal(mt_err_set_at(&err, -EBADMSG, 4096, "row %d", 3), -EBADMSG);
	assert_int_equal(err.offset, 4096);
	assert_string_equal(err.text, "row 3");
}

static void errno_gets_its_text_whatever_its_sign(void **state)
{
	struct mt_err err;
	assert_int_equal(mt_err_set_errno(&err, ENOENT, "cannot open '%s'", "y"), -ENOENT);
	assert_string_equal(err.text, "cannot open 'y': No such file or directory");
	assert_int_equal(mt_err_set_errno(&err, -EACCES, "cannot open '%s'", "y"), -EACCES);
	assert_string_equal(err.text, "cannot open 'y': Permission denied");
	assert_string_equal(mt_err_text_of(-123456), "error 123456");
}

static void no_object_is_allowed(void **state)
{
	assert_int_equal(mt_err_set(NULL, -5, "x"), -5);
	assert_int_equal(mt_err_set_at(NULL, -5, 1, "x"), -5);
	assert_int_equal(mt_err_set_errno(NULL, 5, "x"), -5);
	assert_int_equal(mt_err_no_memory(NULL), -ENOMEM);
	mt_err_clear(NULL);
}

static void long_sentence_is_cut(void **state)
{
	struct mt_err err;
	mt_err_set_errno(&err, EIO, "%5000d", 1);
	assert_int_equal(strlen(err.text), MT_ERR_TEXT_MAX - 1);
}

static void clear_takes_everything_back(void **state)
{
	struct mt_err err;
	mt_err_set_at(&err, -1, 2, "x");
	mt_err_clear(&err);
	assert_int_equal(err.code, 0);
	assert_string_equal(err.text, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(set_fills_code_text_and_no_offset),
		cmocka_unit_test(set_at_keeps_the_offset),
		cmocka_unit_test(errno_gets_its_text_whatever_its_sign),
		cmocka_unit_test(no_object_is_allowed),
		cmocka_unit_test(long_sentence_is_cut),
		cmocka_unit_test(clear_takes_everything_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
