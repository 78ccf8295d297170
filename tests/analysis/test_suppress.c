/* SPDX-License-Identifier: MIT */
/* Suppression files of both kinds: what is read, what is refused, what matches. */
#include "analysis/suppress.h"

#include "analysis/names.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "model/profile.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static const struct mt_suppress_frame stack[] = {
	{.function = "malloc"},
	{.function = "inner",
	 .file = "/src/app/inner.h",
	 .module = "/usr/bin/app",
	 .line = 7,
	 .is_inlined = true},
	{.function = "ns::Table::grow(int)",
	 .mangled = "_ZN2ns5Table4growEi",
	 .file = "/src/app/table.cc",
	 .module = "/usr/bin/app",
	 .line = 42},
	{.function = "g_main_loop", .module = "/usr/lib/x86_64-linux-gnu/libglib-2.0.so.0"},
	{.module = "/opt/plugin.so"},
	{.function = "main", .file = "/src/app/main.c", .module = "/usr/bin/app", .line = 3},
};

static struct mt_suppressions *read_text(const char *text)
{
	struct mt_suppressions *s = mt_suppressions_new();
	struct mt_err err = {0};
	assert_non_null(s);
	if (mt_suppressions_read(s, "file", text, strlen(text), &err))
		fail_msg("%s", err.text);
	return s;
}

static uint32_t match_text(const char *text)
{
	mt_auto(mt_suppressions) struct mt_suppressions *s = read_text(text);
	return mt_suppressions_match(s, stack, MT_ARRAY_LEN(stack));
}

static void assert_matches(const char *const *pattern, size_t count, uint32_t expected)
{
	for (size_t i = 0; i < count; i++)
		if (match_text(pattern[i]) != expected)
			fail_msg("'%s' should %smatch", pattern[i], expected ? "" : "not ");
}

static void leak_pattern_matches_part_of_function_file_or_module_of_any_frame(void **state)
{
	static const char *const yes[] = {
		"leak:Table",
		"leak:main",
		"leak:^main$",
		"leak:libglib",
		"leak:plugin.so$",
		"leak:table.cc",
		"leak:^/src/*/main.c$",
		"leak:ns::*grow(int)$",
		"leak:_ZN2ns5",
		"leak:inner",
		"leak:^malloc$",
		"leak:T*e::g*w",
		"leak:*",
		"  leak: Table  ",
		"leak:**main",
		"leak:^ns::Table*",
	};
	static const char *const no[] = {
		"leak:table_", "leak:^Table",  "leak:grow$",      "leak:^mai$", "leak:Main",
		"leak:main?",  "leak:^plugin", "leak:Table*main", "leak:mainx", "leak:a$b",
	};
	assert_matches(yes, MT_ARRAY_LEN(yes), 1);
	assert_matches(no, MT_ARRAY_LEN(no), 0);
}

#define ENTRY(frames) "{\n  name\n  Memcheck:Leak\n" frames "}\n"

static void valgrind_entry_matches_frames_in_order_from_the_allocation(void **state)
{
	static const char *const yes[] = {
		ENTRY("fun:malloc\n"),
		ENTRY("fun:malloc\nfun:inner\nfun:_ZN2ns5Table4growEi\n"),
		ENTRY("fun:malloc\nfun:_ZN2ns*\nfun:g_main_loop\n"), /* without the inlined frame */
		ENTRY("fun:m?lloc\n...\nfun:main\n"),
		ENTRY("...\nobj:/usr/lib/*/libglib-2.0.so.*\nobj:*plugin.so\nfun:main\n"),
		ENTRY("...\nfun:main\n...\n"),
		ENTRY("...\nsrc:table.cc:42\n...\n"),
		ENTRY("...\nsrc:main.c\n"),
		ENTRY("match-leak-kinds: definite,possible\nfun:malloc\n"),
		ENTRY("fun:*\nfun:*\nfun:*\nfun:*\nobj:*\nfun:*\n"),
		"{\nn\nHelgrind,Memcheck:Leak\n# a comment\nfun:malloc\n}\n",
	};
	static const char *const no[] = {
		ENTRY("fun:inner\n"),
		ENTRY("fun:mall\n"),
		ENTRY("fun:malloc\nfun:main\n"),
		ENTRY("fun:malloc\n...\nfun:g_main_loop\nfun:main\n"),
		ENTRY("...\nsrc:table.cc:43\n"),
		ENTRY("...\nfun:main\nfun:_start\n"),
		ENTRY("...\nobj:plugin.so\n"),
		ENTRY("match-leak-kinds: none\nfun:malloc\n"),
		ENTRY("fun:*\nfun:*\nfun:*\nfun:*\nfun:*\nfun:*\n"), /* no name in plugin.so */
		"{\nn\nMemcheck:Cond\nfun:malloc\n}\n",
		"{\nn\nHelgrind:Race\nfun:malloc\n}\n",
		"{\nn\nMemcheck:Leaky\nfun:malloc\n}\n",
	};
	assert_matches(yes, MT_ARRAY_LEN(yes), 1);
	assert_matches(no, MT_ARRAY_LEN(no), 0);
}

static void ellipsis_tries_every_place(void **state)
{
	static const struct mt_suppress_frame frames[] = {
		{.function = "malloc"}, {.function = "a"}, {.function = "b"},
		{.function = "a"},      {.function = "b"}, {.function = "c"},
	};
	mt_auto(mt_suppressions) struct mt_suppressions *s =
		read_text(ENTRY("fun:malloc\n...\nfun:a\nfun:b\nfun:c\n"));
	assert_int_equal(mt_suppressions_match(s, frames, MT_ARRAY_LEN(frames)), 1);
	assert_int_equal(mt_suppressions_match(s, frames, MT_ARRAY_LEN(frames) - 1), 0);
	assert_int_equal(mt_suppressions_match(s, NULL, 0), 0);
}

static void both_kinds_in_one_file_and_comments(void **state)
{
	static const char text[] = "# comment\n\n   # another\r\nleak:first\r\n"
				   "{\n  name\n  Memcheck:Leak\nfun:calloc\n}\n"
				   "{\nother\nMemcheck:Param\nwrite(buf)\nfun:write\n}\nleak:last";
	mt_auto(mt_suppressions) struct mt_suppressions *s = read_text(text);
	assert_int_equal(mt_suppressions_count(s), 3);
	assert_int_equal(mt_suppressions_skipped(s), 1);
	assert_string_equal(mt_suppressions_rule(s, 0)->text, "leak:first");
	assert_int_equal(mt_suppressions_rule(s, 0)->line, 4);
	assert_string_equal(mt_suppressions_rule(s, 1)->text, "name");
	assert_int_equal(mt_suppressions_rule(s, 1)->line, 5);
	assert_string_equal(mt_suppressions_rule(s, 2)->text, "leak:last");
	assert_string_equal(mt_suppressions_rule(s, 2)->file, "file");
}

static void first_matching_rule_wins_and_hits_are_counted(void **state)
{
	mt_auto(mt_suppressions) struct mt_suppressions *s =
		read_text("leak:absent\nleak:Table\nleak:main\n");
	uint32_t rule = mt_suppressions_match(s, stack, MT_ARRAY_LEN(stack));
	assert_int_equal(rule, 2);
	mt_suppressions_add_hit(s, rule, 3, 300);
	mt_suppressions_add_hit(s, rule, 1, 50);
	mt_suppressions_add_hit(s, 0, 9, 9);
	mt_suppressions_add_hit(s, 4, 9, 9);
	assert_int_equal(mt_suppressions_rule(s, 1)->sites, 2);
	assert_int_equal(mt_suppressions_rule(s, 1)->count, 4);
	assert_int_equal(mt_suppressions_rule(s, 1)->bytes, 350);
	assert_int_equal(mt_suppressions_rule(s, 2)->count, 0);
}

static void bad_line_is_named_with_file_and_line(void **state)
{
	static const struct {
		const char *text, *message;
		uint64_t offset;
	} cases[] = {
		{"leak:a\nrace:b\n",
		 "cannot read suppressions 'file:2': expected 'leak:PATTERN', 'error:PATTERN' or a "
		 "Valgrind entry in '{' and '}', found 'race:b'",
		 7},
		{"leak:\n",
		 "cannot read suppressions 'file:1': expected a pattern of 1 to 4096 "
		 "characters after "
		 "'leak:', found 'leak:'",
		 0},
		{"leak:^$\n",
		 "cannot read suppressions 'file:1': expected more than anchors after "
		 "'leak:', found "
		 "'leak:^$'",
		 0},
		{"\n{\nname\nMemcheck:Leak\nfun:a\n",
		 "cannot read suppressions 'file:2': the entry has no '}'", 28},
		{"{\nname\nMemcheck:Leak\nbogus\x01:a\n}\n",
		 "cannot read suppressions 'file:4': expected 'fun:', 'obj:', 'src:', '...' "
		 "or '}', "
		 "found 'bogus?:a'",
		 21},
		{"{\nname\nMemcheck:Leak\n}\n",
		 "cannot read suppressions 'file:4': expected a frame before the end of the entry, "
		 "found '}'",
		 21},
		{"{\nname\nLeak\n}\n",
		 "cannot read suppressions 'file:3': expected 'Memcheck:Leak' or another "
		 "'TOOL:KIND', "
		 "found 'Leak'",
		 7},
		{"{\n}\n",
		 "cannot read suppressions 'file:2': expected a name for the entry, found '}'", 2},
	};
	for (size_t i = 0; i < MT_ARRAY_LEN(cases); i++) {
		mt_auto(mt_suppressions) struct mt_suppressions *s = mt_suppressions_new();
		struct mt_err err = {0};
		int r = mt_suppressions_read(s, "file", cases[i].text, strlen(cases[i].text), &err);
		assert_int_equal(r, -EBADMSG);
		assert_int_equal(err.code, -EBADMSG);
		assert_string_equal(err.text, cases[i].message);
		assert_int_equal(err.offset, cases[i].offset);
		assert_int_equal(mt_suppressions_count(s), 0);
	}
}

static void a_missing_file_is_an_error(void **state)
{
	mt_auto(mt_suppressions) struct mt_suppressions *s = mt_suppressions_new();
	struct mt_err err = {0};
	assert_int_equal(mt_suppressions_read_file(s, "/nonexistent/file", &err), -ENOENT);
	assert_non_null(strstr(err.text, "'/nonexistent/file'"));
}

static uint32_t give_names(void *context, const struct mt_profile *p, uint32_t node,
			   struct mt_name *ret, uint32_t max)
{
	if (node == 2) {
		ret[0] = (struct mt_name){.function = "small", .is_inlined = true};
		ret[1] = (struct mt_name){.function = "caller", .mangled = "_Z6callerv"};
		return 2;
	}
	return 0;
}

static struct mt_profile *make_profile(void)
{
	struct mt_profile *p = mt_profile_new();
	p->module = mt_arena_array(p->arena, 2, sizeof(*p->module));
	p->module[0].path = "";
	p->module[1].path = "/lib/libthing.so.2";
	p->module_count = 2;
	p->node = mt_arena_array(p->arena, 3, sizeof(*p->node));
	p->node[1] = (struct mt_profile_node){.parent = 0, .module = 1, .depth = 1, .pc = 0x1001};
	p->node[2] = (struct mt_profile_node){.parent = 1, .module = 0, .depth = 2, .pc = 0x2001};
	p->node_count = 3;
	p->site = mt_arena_array(p->arena, 2, sizeof(*p->site));
	p->site[1] = (struct mt_profile_site){.node = 2, .call = 5};
	p->site_count = 2;
	return p;
}

static void site_of_a_profile_is_matched_with_its_call_names_and_modules(void **state)
{
	struct mt_profile *p = make_profile();
	const struct mt_names names = {.frames = give_names};
	mt_auto(mt_suppressions) struct mt_suppressions *s = read_text(
		ENTRY("fun:malloc\n") ENTRY("fun:_Znw*\nfun:_Z6callerv\nobj:*/libthing.so.*\n"));
	uint32_t rule = 9;
	assert_int_equal(mt_suppressions_match_site(s, p, 1, &names, &rule), 0);
	assert_int_equal(rule, 2);
	assert_int_equal(mt_suppressions_match_site(s, p, 1, NULL, &rule), 0);
	assert_int_equal(rule, 0); /* no names: only modules */
	mt_profile_free(p);
}

/* ---- memory errors ---- */

enum { OVERFLOW = 1, USE_AFTER_FREE = 3, DOUBLE_FREE = 4, MISMATCH = 7, HEADER = 8 };
enum { CALL_FREE = 12 };

/* The first rule of a text that matches an error: use of node 2, block made at node 1. */
static uint32_t match_error(const char *text, const struct mt_profile_error *e)
{
	struct mt_profile *p = make_profile();
	const struct mt_names names = {.frames = give_names};
	mt_auto(mt_suppressions) struct mt_suppressions *s = read_text(text);
	uint32_t rule = 9;
	assert_int_equal(mt_suppressions_match_error(s, p, e, &names, &rule), 0);
	mt_profile_free(p);
	return rule;
}

static uint32_t match_kind(const char *text, uint32_t kind)
{
	return match_error(text, &(struct mt_profile_error){.kind = kind,
							    .use = {.node = 2},
							    .alloc = {.node = 1},
							    .call = CALL_FREE,
							    .alloc_call = 5});
}

static void lines_name_one_kind_of_error_or_all(void **state)
{
	assert_int_equal(match_kind("error:caller\n", OVERFLOW), 1);
	assert_int_equal(match_kind("error:caller\n", HEADER), 1);
	assert_int_equal(match_kind("overflow:caller\n", OVERFLOW), 1);
	assert_int_equal(match_kind("overflow:caller\n", HEADER), 0);
	assert_int_equal(match_kind("use-after-free:caller\n", USE_AFTER_FREE), 1);
	assert_int_equal(match_kind("double-free:caller\n", DOUBLE_FREE), 1);
	assert_int_equal(match_kind("mismatched-free:caller\n", MISMATCH), 1);
	assert_int_equal(match_kind("header:caller\n", HEADER), 1);
	assert_int_equal(match_kind("leak:caller\n", OVERFLOW), 0);
	assert_int_equal(match_kind("overflow:other\nerror:libthing\n", OVERFLOW), 2);
}

static void lines_match_any_of_the_stacks_of_an_error(void **state)
{
	struct mt_profile_error e = {.kind = USE_AFTER_FREE, .free = {.tid = 1, .node = 2}};
	assert_int_equal(match_error("error:caller\n", &e), 1);
	e = (struct mt_profile_error){.kind = OVERFLOW, .alloc = {.node = 2}, .alloc_call = 5};
	assert_int_equal(match_error("error:caller\n", &e), 1);
	assert_int_equal(match_error("error:^_Znwm$\n", &e), 1);
	e.alloc.node = 0;
	assert_int_equal(match_error("error:caller\n", &e), 0);
}

#define OF_KIND(kind, frames) "{\n name\n Memcheck:" kind "\n " frames "}\n"

static void entries_of_valgrind_match_the_stack_that_failed(void **state)
{
	assert_int_equal(match_kind(OF_KIND("Addr4", "fun:free\nfun:_Z6callerv\n"), OVERFLOW), 1);
	assert_int_equal(match_kind(OF_KIND("Addr4", "fun:free\nfun:_Z6callerv\n"), DOUBLE_FREE),
			 0);
	assert_int_equal(match_kind(OF_KIND("Free", "fun:free\nfun:small\n"), DOUBLE_FREE), 1);
	assert_int_equal(match_kind(OF_KIND("Free", "fun:free\n...\n"), MISMATCH), 1);
	assert_int_equal(match_kind(OF_KIND("Free", "fun:free\n...\n"), OVERFLOW), 0);
	assert_int_equal(match_kind(OF_KIND("Leak", "fun:free\n"), DOUBLE_FREE), 0);
	/* not that of the allocation */
	assert_int_equal(match_kind(OF_KIND("Addr8", "fun:_Znwm\n"), OVERFLOW), 0);
	/* late, nobody knows who wrote: the free */
	assert_int_equal(match_error(OF_KIND("Addr1", "fun:free\nfun:_Z6callerv\n"),
				     &(struct mt_profile_error){.kind = USE_AFTER_FREE,
								.alloc = {.node = 1},
								.free = {.node = 2}}),
			 1);
	/* guarded samples do not name the function */
	assert_int_equal(
		match_error(OF_KIND("Free", "fun:free\nfun:small\n"),
			    &(struct mt_profile_error){.kind = DOUBLE_FREE, .use = {.node = 2}}),
		1);
}

static void errors_are_no_leaks(void **state)
{
	struct mt_profile *p = make_profile();
	const struct mt_names names = {.frames = give_names};
	mt_auto(mt_suppressions) struct mt_suppressions *s =
		read_text("error:caller\n" OF_KIND("Addr4", "fun:_Znwm\n") "leak:caller\n");
	uint32_t rule = 9;
	assert_int_equal(mt_suppressions_match_site(s, p, 1, &names, &rule), 0);
	assert_int_equal(rule, 3);
	assert_int_equal(mt_suppressions_skipped(s), 0);
	mt_profile_free(p);
}

static void every_failed_allocation_is_reported(void **state)
{
	static const char text[] = "leak:a\n" ENTRY("fun:malloc\n...\nsrc:x.c:3\n") "leak:b\n";
	mt_alloc_fail_from_for_test(0);
	mt_suppressions_free(read_text(text));
	size_t total = mt_alloc_fail_from_for_test(0);
	assert_true(total > 3);
	for (size_t n = 1; n <= total; n++) {
		struct mt_err err = {0};
		mt_alloc_fail_from_for_test(n);
		mt_auto(mt_suppressions) struct mt_suppressions *s = mt_suppressions_new();
		int r = s ? mt_suppressions_read(s, "file", text, sizeof(text) - 1, &err) : -ENOMEM;
		mt_alloc_fail_from_for_test(0);
		assert_int_equal(r, -ENOMEM);
		if (s)
			assert_int_equal(mt_suppressions_count(s), 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(leak_pattern_matches_part_of_function_file_or_module_of_any_frame),
		cmocka_unit_test(valgrind_entry_matches_frames_in_order_from_the_allocation),
		cmocka_unit_test(ellipsis_tries_every_place),
		cmocka_unit_test(both_kinds_in_one_file_and_comments),
		cmocka_unit_test(first_matching_rule_wins_and_hits_are_counted),
		cmocka_unit_test(bad_line_is_named_with_file_and_line),
		cmocka_unit_test(a_missing_file_is_an_error),
		cmocka_unit_test(site_of_a_profile_is_matched_with_its_call_names_and_modules),
		cmocka_unit_test(lines_name_one_kind_of_error_or_all),
		cmocka_unit_test(lines_match_any_of_the_stacks_of_an_error),
		cmocka_unit_test(entries_of_valgrind_match_the_stack_that_failed),
		cmocka_unit_test(errors_are_no_leaks),
		cmocka_unit_test(every_failed_allocation_is_reported),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
