/* SPDX-License-Identifier: MIT */
/* A text in pieces of every length gives the same lines, numbers and offsets. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/cc.h"
#include "formats/text_lines.h"

enum { MOST = 6 };

struct seen {
	struct mt_text_lines lines;
	struct mt_buf text;
	int refuse_line;
};

static int take(void *context, const char *text)
{
	struct seen *s = context;
	mt_buf_printf(&s->text, "%d@%d:%s|", (int)s->lines.line, (int)s->lines.offset,
		      text ? text : "(long)");
	return (int)s->lines.line == s->refuse_line ? -77 : 0;
}

static void begin(struct seen *s)
{
	*s = (struct seen){.lines = {.take = take, .context = s, .most_bytes = MOST}};
}

static void expect(struct seen *s, const char *wanted)
{
	assert_string_equal(mt_buf_text(&s->text), wanted);
	mt_buf_done(&s->text);
	mt_text_lines_done(&s->lines);
}

static const char text[] = "one\n\ntwo\r\n123456\n1234567\nseven77\r\n\r\nlast";
static const char lines[] = "1@0:one|3@5:two|4@10:123456|5@17:(long)|6@25:(long)|8@36:last|";

static void pieces_of_every_length_give_the_same_lines(void **state)
{
	for (size_t piece = 1; piece < sizeof(text); piece++) {
		struct seen s;
		begin(&s);
		for (size_t at = 0; at < sizeof(text) - 1; at += piece)
			assert_int_equal(mt_text_lines_add(&s.lines, text + at,
							   MT_MIN(piece, sizeof(text) - 1 - at)),
					 0);
		assert_int_equal(mt_text_lines_end(&s.lines), 0);
		expect(&s, lines);
	}
}

static void what_the_taker_says_ends_it(void **state)
{
	struct seen s;
	begin(&s);
	s.refuse_line = 3;
	assert_int_equal(mt_text_lines_add(&s.lines, text, sizeof(text) - 1), -77);
	expect(&s, "1@0:one|3@5:two|");
	begin(&s);
	s.refuse_line = 1;
	assert_int_equal(mt_text_lines_add(&s.lines, "last", 4), 0);
	assert_int_equal(mt_text_lines_end(&s.lines), -77);
	expect(&s, "1@0:last|");
}

static void a_descriptor_is_read_to_its_end(void **state)
{
	int end[2], number;
	struct seen s;
	begin(&s);
	assert_int_equal(pipe(end), 0);
	assert_int_equal(write(end[1], text, sizeof(text) - 1), sizeof(text) - 1);
	close(end[1]);
	assert_int_equal(mt_text_lines_read(&s.lines, end[0], &number), 0);
	assert_int_equal(number, 0);
	assert_int_equal(mt_text_lines_end(&s.lines), 0);
	expect(&s, lines);
	close(end[0]);
	begin(&s);
	assert_int_equal(mt_text_lines_read(&s.lines, -1, &number), 0);
	assert_int_equal(number, 9); /* EBADF */
	expect(&s, "");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(pieces_of_every_length_give_the_same_lines),
		cmocka_unit_test(what_the_taker_says_ends_it),
		cmocka_unit_test(a_descriptor_is_read_to_its_end),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
