/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "record/programs_edit.h"

static struct mt_err err;

static struct mt_program_text text_of(const char *s)
{
	return (struct mt_program_text){s, strlen(s)};
}

static void assert_enabled(const char *before, const struct mt_programs_wish *wish,
			   const char *after)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	assert_int_equal(mt_programs_enable(text_of(before), wish, &out, &err), 0);
	assert_string_equal(mt_buf_text(&out), after);
}

static void assert_disabled(const char *before, const char *name, uint32_t wanted,
			    const char *after)
{
	mt_auto(mt_buf) struct mt_buf out = {0};
	uint32_t count = 77;

	assert_int_equal(mt_programs_disable(text_of(before), name, false, 0, &out, &count, &err),
			 0);
	assert_int_equal(count, wanted);
	assert_string_equal(mt_buf_text(&out), after);
}

static void a_new_section_goes_to_the_end(void **state)
{
	const struct mt_programs_wish w = {.name = "b", .options = "depth=3"};

	assert_enabled("[a]\n", &w, "[a]\n\n[b]\noptions = depth=3\n");
	assert_enabled("[a]", &w, "[a]\n\n[b]\noptions = depth=3\n");
}

static void a_section_changes_line_by_line(void **state)
{
	const struct mt_programs_wish w = {
		.name = "a", .check = "guard", .has_limit = true, .limit = 4, .is_secure = true};

	assert_enabled("[a] \r\n# c\nsecure=no\nenabled = no\noptions = x\n\n# b\n[b]\n", &w,
		       "[a] \r\n# c\nsecure = yes\ncheck = guard\nlimit = 4\n\n# b\n[b]\n");
	assert_enabled("[a]", &w, "[a]\ncheck = guard\nlimit = 4\nsecure = yes\n");
}

static void what_is_not_given_stays(void **state)
{
	const struct mt_programs_wish w = {.name = "a"};
	static const char text[] = "[a]\ncheck = guard\nlimit = 2\n";

	assert_enabled(text, &w, text);
	assert_enabled("[a]\nenabled = no\ncheck = guard\nlimit = 2\n", &w, text);
}

static void users_have_sections_of_their_own(void **state)
{
	const struct mt_programs_wish w = {
		.name = "a", .has_user = true, .user = 5, .options = "depth=1"};

	assert_enabled("# x\n[a]\n", &w, "[a]\noptions = depth=1\nuser = 5\n\n# x\n[a]\n");
	assert_enabled("[a]\nuser = 6\n", &w,
		       "[a]\nuser = 6\n\n[a]\noptions = depth=1\nuser = 5\n");
	assert_enabled("[a]\nuser = 5\n[a]\n", &w, "[a]\nuser = 5\noptions = depth=1\n[a]\n");
}

static void a_new_section_stands_before_what_would_hide_it(void **state)
{
	const struct mt_programs_wish w = {.name = "ab"};

	assert_enabled("[b*]\n[a*]\n[ab*]\n", &w, "[b*]\n[ab]\n\n[a*]\n[ab*]\n");
	assert_enabled("[*]\nwrong\n", &w, "[ab]\n\n[*]\nwrong\n");
}

static void assert_refused(const char *before, const struct mt_programs_wish *wish,
			   const char *part)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	mt_err_clear(&err);
	assert_true(mt_programs_enable(text_of(before), wish, &out, &err) < 0);
	assert_non_null(strstr(err.text, part));
}

static void what_cannot_be_written_is_refused(void **state)
{
	assert_refused("", &(struct mt_programs_wish){.name = ""}, "needs a program");
	assert_refused("", &(struct mt_programs_wish){.name = "a/b"}, "cannot be the name");
	assert_refused("", &(struct mt_programs_wish){.name = "a\nb"}, "no text");
	assert_refused("", &(struct mt_programs_wish){.name = "a", .check = "x\ny"}, "no text");
	assert_refused("[a]\ncolour = red\n", &(struct mt_programs_wish){.name = "a"},
		       "mistake in line 2");
	assert_refused("[*]\n[a]\n", &(struct mt_programs_wish){.name = "a"}, "move it in front");
}

static void disabling_changes_one_line(void **state)
{
	assert_disabled("[a]\ncheck = x\n\n[b]\n", "a", 1, "[a]\ncheck = x\nenabled = no\n\n[b]\n");
	assert_disabled("[a]\nenabled=yes\n[b]\n", "a", 1, "[a]\nenabled = no\n[b]\n");
	assert_disabled("[a]\n[b]\n", "c", 0, "[a]\n[b]\n");
	assert_disabled("[a]\nuser = 1\n[a]", "a", 2,
			"[a]\nuser = 1\nenabled = no\n[a]\nenabled = no\n");
	assert_disabled("x\n[a]\n[b\n[c]\nwrong\n", NULL, 2,
			"x\n[a]\nenabled = no\n[b\n[c]\nwrong\nenabled = no\n");
}

static void every_missing_block_of_memory_is_an_error(void **state)
{
	const struct mt_programs_wish w = {.name = "a", .check = "guard"};

	for (size_t n = 1; n < 50; n++) {
		mt_auto(mt_buf) struct mt_buf out = {0};
		size_t made;
		int code;

		mt_alloc_fail_from_for_test(0);
		mt_alloc_fail_from_for_test(n);
		code = mt_programs_enable(text_of("[b]\n"), &w, &out, &err);
		made = mt_alloc_fail_from_for_test(0);
		if (made < n) {
			assert_int_equal(code, 0);
			return;
		}
		assert_true(code < 0);
	}
	fail();
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_new_section_goes_to_the_end),
		cmocka_unit_test(a_section_changes_line_by_line),
		cmocka_unit_test(what_is_not_given_stays),
		cmocka_unit_test(users_have_sections_of_their_own),
		cmocka_unit_test(a_new_section_stands_before_what_would_hide_it),
		cmocka_unit_test(what_cannot_be_written_is_refused),
		cmocka_unit_test(disabling_changes_one_line),
		cmocka_unit_test(every_missing_block_of_memory_is_an_error),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
