/* SPDX-License-Identifier: MIT */
/* The parts of reports: aligned columns, the JSON writer, CSV fields. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>

#include "base/alloc.h"
#include "core/cc.h"
#include "report/alike.h"
#include "report/grid.h"
#include "report/internal.h"
#include "report/json.h"

static void columns_are_as_wide_as_they_must(void **state)
{
	mt_auto(mt_grid) struct mt_grid g = {0};
	mt_auto(mt_buf) struct mt_buf out = {0};

	mt_grid_init(&g, "lrl");
	mt_grid_add(&g, "a");
	mt_grid_add(&g, "long");
	mt_grid_add(&g, "");
	mt_grid_add(&g, "bbb");
	mt_grid_addf(&g, "%d", 7);
	mt_grid_add(&g, "end");
	assert_int_equal(mt_grid_write(&g, 1, &out), 0);
	assert_string_equal(out.data, " a    long\n bbb     7  end\n");
}

static void width_counts_characters(void **state)
{
	mt_auto(mt_grid) struct mt_grid g = {0};
	mt_auto(mt_buf) struct mt_buf out = {0};

	mt_grid_init(&g, "lr");
	mt_grid_add(&g, "\xc3\xa9\xc3\xa9"); /* two characters, four bytes */
	mt_grid_add(&g, "1");
	mt_grid_add(&g, "ab");
	mt_grid_add(&g, "1");
	assert_int_equal(mt_grid_write(&g, 0, &out), 0);
	assert_string_equal(out.data, "\xc3\xa9\xc3\xa9  1\nab  1\n");
}

static void a_lost_cell_fails_the_grid(void **state)
{
	mt_auto(mt_grid) struct mt_grid g = {0};
	mt_auto(mt_buf) struct mt_buf out = {0};

	mt_grid_init(&g, "l");
	mt_alloc_fail_from_for_test(1);
	mt_grid_add(&g, "x");
	mt_alloc_fail_from_for_test(0);
	assert_int_equal(mt_grid_write(&g, 0, &out), -ENOMEM);
}

static void json_is_indented_and_separated(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};
	struct mt_json j = {.out = &out};

	mt_json_open(&j, NULL, '{');
	mt_json_u64(&j, "max", UINT64_MAX);
	mt_json_i64(&j, "min", INT64_MIN);
	mt_json_open(&j, "list", '[');
	mt_json_bool(&j, NULL, true);
	mt_json_null(&j, NULL);
	mt_json_close(&j, ']');
	mt_json_open(&j, "none", '{');
	mt_json_close(&j, '}');
	mt_json_hash(&j, "hash", 0xab);
	mt_json_close(&j, '}');
	assert_string_equal(out.data, "{\n"
				      "  \"max\": 18446744073709551615,\n"
				      "  \"min\": -9223372036854775808,\n"
				      "  \"list\": [\n"
				      "    true,\n"
				      "    null\n"
				      "  ],\n"
				      "  \"none\": {},\n"
				      "  \"hash\": \"00000000000000ab\"\n"
				      "}\n");
}

static void csv_quotes_what_must_be_quoted(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};

	mt_csv_field(&out, "plain", false);
	mt_csv_field(&out, "a,b", false);
	mt_csv_field(&out, "say \"x\"", false);
	mt_csv_number(&out, 5, true);
	assert_string_equal(out.data, "plain,\"a,b\",\"say \"\"x\"\"\",5\n");
}

static void names_cannot_act_on_the_terminal(void **state)
{
	mt_auto(mt_buf) struct mt_buf out = {0};
	mt_auto(mt_grid) struct mt_grid g = {0};

	mt_csv_field(&out, "a\n\033[2J\xff", true);
	mt_text_line(&out, "<", "b\r\x9b", ">\n");
	mt_grid_init(&g, "lr");
	mt_grid_add(&g, "c\t");
	mt_grid_addf(&g, "%s", "\033c");
	mt_grid_add(&g, "wider");
	mt_grid_add(&g, "");
	assert_int_equal(mt_grid_write(&g, 0, &out), 0);
	assert_string_equal(out.data, "a\\n\\x1b[2J\\xff\n<b\\r\\x9b>\nc\\t    \\x1bc\nwider\n");
}

static void every_word_of_the_command_line_has_its_name(void **state)
{
	assert_string_equal(mt_show_name(MT_SHOW_LEAKS), "leaks");
	assert_string_equal(mt_show_name(MT_SHOW_TIMELINE), "timeline");
	assert_null(mt_show_name(MT_SHOW_SUMMARY + 1));
	assert_string_equal(mt_by_name(MT_BY_LABEL), "label");
	assert_null(mt_by_name(MT_BY_LABEL + 1));
	assert_string_equal(mt_sort_name(MT_SORT_AGE), "age");
	assert_null(mt_sort_name(MT_SORT_AGE + 1));
}

static void append(void *context, const char *sentence)
{
	mt_buf_printf(context, "%s\n", sentence);
}

static void what_many_processes_say_is_one_line(void **state)
{
	static const char *const said[] = {"process 1: began late",
					   "7 events were lost",
					   "process 2: lacks 5 of 90 frees",
					   "process 3: began late",
					   "7 events were lost",
					   "process 44: lacks 16 of 90 frees",
					   "process 5: began late",
					   "process 6: lacks 5 of 90",
					   "process x: began late"};
	mt_auto(mt_alike) struct mt_alike a = {0};
	mt_auto(mt_buf) struct mt_buf out = {0};

	for (size_t i = 0; i < MT_ARRAY_LEN(said); i++)
		mt_alike_add(&a, said[i]);
	assert_int_equal(mt_alike_each(&a, append, &out), 0);
	assert_string_equal(out.data,
			    "process 1: began late (and 2 more processes; --json lists all)\n"
			    "7 events were lost\n"
			    "process 2: lacks 5 of 90 frees (and 1 more process, with numbers of "
			    "their own; --json lists all)\n"
			    "7 events were lost\n"
			    "process 6: lacks 5 of 90\n"
			    "process x: began late\n");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(columns_are_as_wide_as_they_must),
		cmocka_unit_test(width_counts_characters),
		cmocka_unit_test(what_many_processes_say_is_one_line),
		cmocka_unit_test(a_lost_cell_fails_the_grid),
		cmocka_unit_test(json_is_indented_and_separated),
		cmocka_unit_test(csv_quotes_what_must_be_quoted),
		cmocka_unit_test(names_cannot_act_on_the_terminal),
		cmocka_unit_test(every_word_of_the_command_line_has_its_name),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
