/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "wire/programs.h"

static struct mt_program_text text_of(const char *s)
{
	return (struct mt_program_text){s, strlen(s)};
}

static void assert_text(struct mt_program_text got, const char *wanted)
{
	char copy[2048];
	snprintf(copy, sizeof(copy), "%.*s", (int)got.len, got.at ? got.at : "");
	assert_string_equal(copy, wanted);
}

/* The sections of a text. */
static struct mt_program section[16];

static int read_text(const char *text)
{
	struct mt_programs p = {.text = text_of(text)};
	int n = 0;
	while (n < 16 && mt_programs_next(&p, &section[n]))
		n++;
	assert_int_equal(p.at, strlen(text));
	return n;
}

static enum mt_program_verdict find(const char *text, const char *name, uint32_t user)
{
	struct mt_program_process process = {.name = {text_of(name)}, .user = user};
	struct mt_program s;
	uint32_t problems;
	return mt_programs_find(text_of(text), &process, &s, &problems);
}

static void a_section_holds_what_it_says(void **state)
{
	assert_int_equal(read_text("# all of it\n\n[nginx]\n  check = backtrace  guard=32 \r\n"
				   "options=depth=32 follow=none\nuser = 33\nlimit=2\n"
				   "enabled = yes\nsecure = no\n"),
			 1);
	assert_text(section[0].name, "nginx");
	assert_text(section[0].check, "backtrace  guard=32");
	assert_text(section[0].options, "depth=32 follow=none");
	assert_int_equal(section[0].line, 3);
	assert_int_equal(section[0].has_user, 1);
	assert_int_equal(section[0].user, 33);
	assert_int_equal(section[0].limit, 2);
	assert_int_equal(section[0].is_disabled, 0);
	assert_int_equal(section[0].is_secure, 0);
	assert_null(section[0].problem);
	assert_int_equal(section[0].begin, strlen("# all of it\n\n"));
}

static void a_bare_section_has_the_defaults(void **state)
{
	assert_int_equal(read_text("[a]\n[b]"), 2);
	for (int i = 0; i < 2; i++) {
		assert_null(section[i].problem);
		assert_null(section[i].check.at);
		assert_null(section[i].options.at);
		assert_int_equal(section[i].has_user, 0);
		assert_int_equal(section[i].limit, 0);
		assert_int_equal(section[i].is_disabled, 0);
		assert_int_equal(section[i].is_secure, 0);
	}
	assert_text(section[1].name, "b");
	assert_int_equal(section[1].line, 2);
	assert_int_equal(section[1].end, 7);
}

static void nothing_and_comments_are_no_section(void **state)
{
	assert_int_equal(read_text(""), 0);
	assert_int_equal(read_text("\n \n\t\n# a\n;b"), 0);
}

static void names_may_hold_brackets_and_blanks(void **state)
{
	assert_int_equal(read_text("[[]\n[Web Content]\n[ padded ]\n"), 3);
	assert_text(section[0].name, "[");
	assert_text(section[1].name, "Web Content");
	assert_text(section[2].name, "padded");
}

/* Each text has one mistake, in its line `line`. */
static void assert_problem(const char *text, const char *problem, uint32_t line)
{
	assert_true(read_text(text) >= 1);
	assert_non_null(section[0].problem);
	assert_non_null(strstr(section[0].problem, problem));
	assert_int_equal(section[0].problem_line, line);
}

static void mistakes_are_named_with_their_line(void **state)
{
	assert_problem("[a]\nfoo = 1\n", "unknown key", 2);
	assert_problem("[a]\nChEck = guard\n", "unknown key", 2);
	assert_problem("[a]\nguard\n", "neither", 2);
	assert_problem("[a]\n= guard\n", "without a key", 2);
	assert_problem("[a]\nlimit = 1\nlimit = 1\n", "already", 3);
	assert_problem("[a]\nlimit = 1001\n", "limit", 2);
	assert_problem("[a]\nlimit = -1\n", "limit", 2);
	assert_problem("[a]\nlimit =\n", "limit", 2);
	assert_problem("[a]\nlimit = 1 2\n", "limit", 2);
	assert_problem("[a]\nuser = root\n", "id -u", 2);
	assert_problem("[a]\nuser = 4294967295\n", "id -u", 2);
	assert_problem("[a]\nuser = 99999999999999999999\n", "id -u", 2);
	assert_problem("[a]\nenabled = maybe\n", "yes or no", 2);
	assert_problem("[a]\nsecure = true\n", "yes or no", 2);
	assert_problem("[a]\ncheck = gu\x01"
		       "ard\n",
		       "no text", 2);
	assert_problem("\n[a\n", "ends with ]", 2);
	assert_problem("[]\n", "needs a program's name", 1);
	assert_problem("[/usr/bin/a]\n", "no folder", 1);
	assert_problem("limit = 1\n[a]\n", "before the first", 1);
	assert_problem("\xef\xbb\xbf[a]\n", "neither", 1);
}

static void the_first_mistake_of_a_section_is_told(void **state)
{
	assert_problem("[a]\nenabled = x\nfoo = 1\n", "yes or no", 2);
}

static void a_broken_header_has_no_name(void **state)
{
	assert_int_equal(read_text("[a\ncheck = guard\n[b]\n"), 2);
	assert_int_equal(section[0].name.len, 0);
	assert_null(section[1].problem);
}

static void sizes_have_bounds(void **state)
{
	char text[4096], name[300], value[1100];
	memset(name, 'n', sizeof(name));
	memset(value, 'v', sizeof(value));
	snprintf(text, sizeof(text), "[%.255s]\noptions=%.1000s\n", name, value);
	read_text(text);
	assert_null(section[0].problem);
	assert_int_equal(section[0].name.len, MT_PROGRAMS_NAME_MAX);
	assert_int_equal(section[0].options.len, MT_PROGRAMS_VALUE_MAX);
	snprintf(text, sizeof(text), "[%.256s]\n", name);
	assert_problem(text, "255", 1);
	snprintf(text, sizeof(text), "[a]\noptions=%.1001s\n", value);
	assert_problem(text, "1000", 2);
}

static int fits(const char *pattern, const char *name)
{
	return mt_program_fits(text_of(pattern), text_of(name));
}

static void names_fit_exactly_or_by_glob(void **state)
{
	assert_true(fits("nginx", "nginx"));
	assert_false(fits("nginx", "nginx2"));
	assert_false(fits("ngin", "nginx")); /* bionic would say yes: it searches a part */
	assert_true(fits("*ngin*", "nginx"));
	assert_true(fits("*", "x"));
	assert_true(fits("a?c", "abc"));
	assert_false(fits("a?c", "ac"));
	assert_true(fits("a*b*c", "a__b__b_c"));
	assert_false(fits("a*b*c", "a__b__b_"));
	assert_true(fits("**a**", "bab"));
	assert_false(fits("A", "a"));
	assert_false(fits("", "a"));
	assert_false(fits("*", ""));
	assert_true(fits("\\*", "\\x"));
}

static void globs_that_match_nowhere_end_soon(void **state)
{
	char pattern[256], name[256];
	for (int i = 0; i < 255; i++) {
		pattern[i] = i % 2 ? 'a' : '*';
		name[i] = 'a';
	}
	pattern[254] = 'b';
	pattern[255] = name[255] = 0;
	assert_false(fits(pattern, name));
}

static void the_first_section_that_fits_decides(void **state)
{
	static const char text[] = "[sshd]\nenabled = no\n[web]\nuser = 33\n[web]\nuser = 34\n"
				   "limit = 1\n[s*]\n";
	assert_int_equal(find(text, "sshd", 0), MT_PROGRAM_OFF);
	assert_int_equal(find(text, "ssh", 0), MT_PROGRAM_TRACKED);
	assert_int_equal(find(text, "web", 33), MT_PROGRAM_TRACKED);
	assert_int_equal(find(text, "web", 34), MT_PROGRAM_TRACKED);
	assert_int_equal(find(text, "web", 35), MT_PROGRAM_UNKNOWN);
	assert_int_equal(find(text, "cat", 0), MT_PROGRAM_UNKNOWN);
	assert_int_equal(find("", "cat", 0), MT_PROGRAM_UNKNOWN);
}

static void a_mistake_switches_its_own_program_off(void **state)
{
	static const char text[] = "[a]\nfoo = 1\n[b]\n[a]\n";
	assert_int_equal(find(text, "a", 0), MT_PROGRAM_OFF);
	assert_int_equal(find(text, "b", 0), MT_PROGRAM_TRACKED);
	/* whatever user it was meant for */
	assert_int_equal(find("[a]\nuser = 5\nlimit = x\n[a]\n", "a", 6), MT_PROGRAM_OFF);
}

static void sections_with_mistakes_are_counted(void **state)
{
	struct mt_program_process process = {.name = {text_of("c")}};
	struct mt_program s;
	uint32_t problems;
	struct mt_program_text text = text_of("x\n[a]\nfoo = 1\n[b\n[c]\n[d]\nfoo = 1\n");
	assert_int_equal(mt_programs_find(text, &process, &s, &problems), MT_PROGRAM_TRACKED);
	assert_int_equal(problems, 3);
	assert_int_equal(s.line, 5);
}

static void secure_processes_need_a_section_that_says_so(void **state)
{
	struct mt_program_process process = {.name = {text_of("su")}, .is_secure = 1};
	struct mt_program s;
	uint32_t problems;
	assert_int_equal(mt_programs_find(text_of("[su]\n"), &process, &s, &problems),
			 MT_PROGRAM_OFF);
	assert_int_equal(mt_programs_find(text_of("[su]\nsecure = no\n"), &process, &s, &problems),
			 MT_PROGRAM_OFF);
	assert_int_equal(mt_programs_find(text_of("[su]\nsecure = yes\n"), &process, &s, &problems),
			 MT_PROGRAM_TRACKED);
}

static void any_of_its_names_finds_a_process(void **state)
{
	struct mt_program_process process = {
		.name = {text_of("python3.11"), text_of("tool"), text_of("python3")}};
	struct mt_program s;
	uint32_t problems;
	static const char *const names[] = {"[python3.11]", "[tool]", "[python3]"};
	for (int i = 0; i < 3; i++)
		assert_int_equal(mt_programs_find(text_of(names[i]), &process, &s, &problems),
				 MT_PROGRAM_TRACKED);
	assert_int_equal(mt_programs_find(text_of("[python]"), &process, &s, &problems),
			 MT_PROGRAM_UNKNOWN);
}

static void base_names_have_no_folder_and_are_never_deleted(void **state)
{
	assert_text(mt_program_base("/usr/bin/x"), "x");
	assert_text(mt_program_base("x"), "x");
	assert_text(mt_program_base("/usr/bin/"), "");
	assert_text(mt_program_base(""), "");
	assert_text(mt_program_base("/usr/bin/x (deleted)"), "x");
	assert_text(mt_program_base("/usr/bin/ (deleted)"), " (deleted)");
}

static void lines_have_their_places(void **state)
{
	struct mt_program_line line;
	struct mt_program_text text = text_of("# c\n\n [a] \nx = y\nz");
	static const enum mt_program_line_kind kinds[] = {
		MT_PROGRAM_LINE_COMMENT, MT_PROGRAM_LINE_BLANK, MT_PROGRAM_LINE_HEADER,
		MT_PROGRAM_LINE_KEY, MT_PROGRAM_LINE_WRONG};
	static const size_t ends[] = {4, 5, 11, 17, 18};
	size_t at = 0;
	for (int i = 0; i < 5; i++, at = line.end) {
		mt_program_line(text, at, &line);
		assert_int_equal(line.kind, kinds[i]);
		assert_int_equal(line.begin, at);
		assert_int_equal(line.end, ends[i]);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_section_holds_what_it_says),
		cmocka_unit_test(a_bare_section_has_the_defaults),
		cmocka_unit_test(nothing_and_comments_are_no_section),
		cmocka_unit_test(names_may_hold_brackets_and_blanks),
		cmocka_unit_test(mistakes_are_named_with_their_line),
		cmocka_unit_test(the_first_mistake_of_a_section_is_told),
		cmocka_unit_test(a_broken_header_has_no_name),
		cmocka_unit_test(sizes_have_bounds),
		cmocka_unit_test(names_fit_exactly_or_by_glob),
		cmocka_unit_test(globs_that_match_nowhere_end_soon),
		cmocka_unit_test(the_first_section_that_fits_decides),
		cmocka_unit_test(a_mistake_switches_its_own_program_off),
		cmocka_unit_test(sections_with_mistakes_are_counted),
		cmocka_unit_test(secure_processes_need_a_section_that_says_so),
		cmocka_unit_test(any_of_its_names_finds_a_process),
		cmocka_unit_test(base_names_have_no_folder_and_are_never_deleted),
		cmocka_unit_test(lines_have_their_places),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
