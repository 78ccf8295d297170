/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "record/preload_list.h"

#define OURS "/usr/lib/libmemtrack.so"

static void assert_added(const char *before, const char *after)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	assert_false(mt_preload_list_has(before, OURS));
	assert_int_equal(mt_preload_list_add(before, OURS, &out), 0);
	assert_string_equal(mt_buf_text(&out), after);
	assert_true(mt_preload_list_has(mt_buf_text(&out), OURS));
}

static void assert_removed(const char *before, unsigned wanted, const char *after)
{
	mt_auto(mt_buf) struct mt_buf out = {0};
	unsigned count = 77;

	assert_int_equal(mt_preload_list_remove(before, "libmemtrack.so", &out, &count), 0);
	assert_int_equal(count, wanted);
	assert_string_equal(mt_buf_text(&out), after);
}

static void the_library_comes_first_of_all(void **state)
{
	assert_added("", OURS "\n");
	assert_added("# nothing\n", "# nothing\n" OURS "\n");
	assert_added("# nothing", "# nothing\n" OURS "\n");
	assert_added("# c\n\n  /a.so /b.so\n/c.so\n", "# c\n\n" OURS "\n  /a.so /b.so\n/c.so\n");
	assert_added("#" OURS "\n", "#" OURS "\n" OURS "\n");
	assert_added(OURS ".1", OURS "\n" OURS ".1");
}

static void it_is_found_among_others(void **state)
{
	assert_true(mt_preload_list_has("/a.so:" OURS ":/b.so", OURS));
	assert_true(mt_preload_list_has("/a.so\n\t" OURS "# why\n", OURS));
	assert_false(mt_preload_list_has("/a.so # " OURS "\n", OURS));
	assert_false(mt_preload_list_has("/x" OURS, OURS));
}

static void only_it_is_removed(void **state)
{
	assert_removed(OURS "\n", 1, "");
	assert_removed("# c\n" OURS "\n/a.so\n", 1, "# c\n/a.so\n");
	assert_removed("/a.so:" OURS ":/b.so\n", 1, "/a.so:/b.so\n");
	assert_removed(OURS " /b.so", 1, " /b.so");
	assert_removed(OURS " # why\n", 1, " # why\n");
	assert_removed("libmemtrack.so\n/opt/libmemtrack.so\n", 2, "");
	assert_removed("/a/xlibmemtrack.so\n/a/libmemtrack.so.1\n", 0,
		       "/a/xlibmemtrack.so\n/a/libmemtrack.so.1\n");
	assert_removed("# " OURS "\n\n", 0, "# " OURS "\n\n");
	assert_removed("", 0, "");
}

static void paths_are_joined_for_the_environment(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	assert_int_equal(mt_preload_list_join("# c\n/a.so /b.so\n:/c.so# d\n", &out), 0);
	assert_string_equal(mt_buf_text(&out), "/a.so:/b.so:/c.so");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_library_comes_first_of_all),
		cmocka_unit_test(it_is_found_among_others),
		cmocka_unit_test(only_it_is_removed),
		cmocka_unit_test(paths_are_joined_for_the_environment),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
