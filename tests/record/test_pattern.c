/* SPDX-License-Identifier: MIT */
/* Output patterns. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "record/pattern.h"

static void expect(const char *pattern, const char *want)
{
	char *path = mt_pattern_expand(pattern, "a/b", 42, 1700000000000000000ull);

	assert_string_equal(path, want);
	free(path);
}

static void conversions_are_replaced(void **state)
{
	char host[256] = "", want[300];

	expect(MT_PATTERN_DEFAULT, "memtrack.a_b.42.mtk");
	expect("%t-100%%", "20231114-221320-100%");
	gethostname(host, sizeof(host) - 1);
	snprintf(want, sizeof(want), "x%s", host);
	expect("x%h", want);
}

static void a_program_without_a_name_is_unknown(void **state)
{
	char *path = mt_pattern_expand("%e", "", 1, 0);

	assert_string_equal(path, "unknown");
	free(path);
}

static void unknown_conversions_are_named(void **state)
{
	struct mt_err err = {0};

	assert_int_equal(mt_pattern_check("a%q", &err), -EINVAL);
	assert_string_equal(err.text, "'a%q' has an unknown conversion '%q' (known: %e %p %h %t)");
	assert_int_equal(mt_pattern_check("a%", NULL), -EINVAL);
	assert_int_equal(mt_pattern_check("", NULL), -EINVAL);
	assert_int_equal(mt_pattern_check("%%%e", NULL), 0);
}

static void collisions_are_numbered_before_the_extension(void **state)
{
	static const char *const cases[][2] = {
		{"d.x/a.b.mtk", "d.x/a.b-2.mtk"},
		{"d.x/a", "d.x/a-2"},
		{".mtk", ".mtk-2"},
	};

	for (size_t i = 0; i < 3; i++) {
		char *path = mt_pattern_numbered(cases[i][0], 2);

		assert_string_equal(path, cases[i][1]);
		free(path);
		path = mt_pattern_numbered(cases[i][0], 1);
		assert_string_equal(path, cases[i][0]);
		free(path);
	}
}

static void relative_patterns_stay_in_this_directory(void **state)
{
	char dir[] = "/tmp/memtrack-test-50%-XXXXXX", want[64];
	char *pattern, *path, *home = getcwd(NULL, 0);

	assert_non_null(mkdtemp(dir));
	assert_int_equal(chdir(dir), 0);
	pattern = mt_pattern_absolute("%p.mtk", NULL);
	path = mt_pattern_expand(pattern, "x", 7, 0);
	snprintf(want, sizeof(want), "%s/7.mtk", dir);
	assert_string_equal(path, want); /* the percent sign of the directory is kept */
	free(path);
	free(pattern);
	pattern = mt_pattern_absolute("/a/%p", NULL);
	assert_string_equal(pattern, "/a/%p");
	free(pattern);
	assert_int_equal(chdir(home), 0);
	assert_int_equal(rmdir(dir), 0);
	free(home);
}

static void a_directory_that_cannot_be_written_is_found(void **state)
{
	struct mt_err err = {0};

	assert_int_equal(mt_pattern_check_writable("/nonexistent-dir/%e.mtk", &err), -ENOENT);
	assert_string_equal(err.text, "cannot write to the output directory '/nonexistent-dir': No "
				      "such file or directory");
	assert_int_equal(mt_pattern_check_writable("/dev/null/%e.mtk", NULL), -ENOTDIR);
	assert_int_equal(mt_pattern_check_writable("/proc/%e.mtk", NULL) == 0, getuid() == 0);
	assert_int_equal(mt_pattern_check_writable("/tmp/%e.mtk", NULL), 0);
	assert_int_equal(mt_pattern_check_writable("/tmp", NULL), -EINVAL);
	assert_int_equal(mt_pattern_check_writable("/dev/full", NULL), -EINVAL);
	/* known only when the program is */
	assert_int_equal(mt_pattern_check_writable("/tmp/%p/x.mtk", NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(conversions_are_replaced),
		cmocka_unit_test(a_program_without_a_name_is_unknown),
		cmocka_unit_test(unknown_conversions_are_named),
		cmocka_unit_test(collisions_are_numbered_before_the_extension),
		cmocka_unit_test(relative_patterns_stay_in_this_directory),
		cmocka_unit_test(a_directory_that_cannot_be_written_is_found),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
