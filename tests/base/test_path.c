/* SPDX-License-Identifier: MIT */
#include "test_all.h"

#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/path.h"

static void paths_are_taken_apart_and_joined(void **state)
{
	static const struct {
		const char *path, *dir, *base;
	} cases[] = {
		{"/usr/bin/x", "/usr/bin", "x"},
		{"x", ".", "x"},
		{"/x", "/", "x"},
		{"a/b", "a", "b"},
		{"a//b", "a", "b"},
		{"//x", "/", "x"},
		{"a/", "a", ""},
		{"", ".", ""},
		{"/", "/", ""},
	};
	for (size_t i = 0; i < MT_ARRAY_LEN(cases); i++) {
		mt_auto(free) char *dir = mt_path_dir(cases[i].path);
		assert_string_equal(dir, cases[i].dir);
		assert_string_equal(mt_path_base(cases[i].path), cases[i].base);
	}
	static const char *const joins[][3] = {
		{"a", "b", "a/b"}, {"a/", "b", "a/b"}, {"/", "b", "/b"},
		{"", "b", "b"},    {"a", "/b", "/b"},  {".", "b", "./b"},
	};
	for (size_t i = 0; i < MT_ARRAY_LEN(joins); i++) {
		mt_auto(free) char *path = mt_path_join(joins[i][0], joins[i][1]);
		assert_string_equal(path, joins[i][2]);
	}
}

static void folders_are_made_with_their_parents(void **state)
{
	const char *tmp = getenv("TMPDIR");
	char top[256], deep[300], part[300];
	struct mt_err err;
	snprintf(top, sizeof(top), "%s/mt-path-XXXXXX", tmp ? tmp : "/tmp");
	assert_non_null(mkdtemp(top));
	snprintf(deep, sizeof(deep), "%s/a/b/c", top);
	assert_int_equal(mt_path_make_dirs(deep, 0700, NULL), 0);
	assert_int_equal(mt_path_make_dirs(deep, 0700, NULL), 0); /* already there */
	assert_int_equal(rmdir(deep), 0);
	snprintf(part, sizeof(part), "%s/a/b", top);
	assert_int_equal(rmdir(part), 0);
	snprintf(part, sizeof(part), "%s/a", top);
	assert_int_equal(rmdir(part), 0);
	assert_int_equal(mt_file_write_atomic(part, "", 0, 0600, NULL), 0);
	assert_int_equal(mt_path_make_dirs(part, 0700, &err), -ENOTDIR);
	assert_int_equal(mt_path_make_dirs(deep, 0700, &err), -ENOTDIR);
	assert_non_null(strstr(err.text, "cannot create directory '"));
	assert_int_equal(unlink(part), 0);
	assert_int_equal(rmdir(top), 0);
}

static void without_memory_there_is_no_path(void **state)
{
	struct mt_err err;
	mt_alloc_fail_from_for_test(1);
	char *dir = mt_path_dir("/a/b"), *joined = mt_path_join("a", "b");
	int r = mt_path_make_dirs("/a", 0700, &err);
	mt_alloc_fail_from_for_test(0);
	assert_null(dir);
	assert_null(joined);
	assert_int_equal(r, -ENOMEM);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(paths_are_taken_apart_and_joined),
		cmocka_unit_test(folders_are_made_with_their_parents),
		cmocka_unit_test(without_memory_there_is_no_path),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
