/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_ESCAPE_H
#define MT_BASE_ESCAPE_H

/* Text of unknown origin (file names, thread names, labels) made fit for a terminal or a log. */

#include "base/buf.h"

/* Length of the valid UTF-8 sequence at s (1 to 4), 0 when there is none. s ends with a NUL. */
size_t mt_utf8_len(const char *s);

/* Bytes at the beginning of text that are printable ASCII other than `a` and `b`: most texts are
 * nothing else. */
static inline size_t mt_plain_len(const char *text, char a, char b)
{
	size_t len = 0;

	while (text[len] >= ' ' && text[len] < 0x7f && text[len] != a && text[len] != b)
		len++;
	return len;
}

/*
 * Appends text with everything that could act on the reader's side written out: newline, tab and
 * carriage return as \n \t \r; other control characters and bytes that are not UTF-8 as \xNN;
 * controls of Unicode (C1, line and paragraph separators, changes of writing direction) as \u{N}.
 * All else, a backslash too, stays as it is: the result is for people and cannot be read back.
 * Escaping twice changes nothing. 0 or -ENOMEM.
 */
int mt_escape(struct mt_buf *out, const char *text);

#endif
