/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_TEXT_LINES_H
#define MT_FORMATS_TEXT_LINES_H

/* Cuts a text that comes in pieces into lines, for readers that look at one line at a time. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

/*
 * A line without its end ("\n" or "\r\n"), NUL-terminated, valid during the call; NULL: it is
 * longer than most_bytes, and told once. Not 0: the cutting ends with that value.
 */
typedef int mt_text_line_taker(void *context, const char *text);

/* The caller sets the first three; the rest is 0 at first. Empty lines are counted, not given. */
struct mt_text_lines {
	mt_text_line_taker *take;
	void *context;
	size_t most_bytes;
	uint64_t line;   /* number of the line that is given, the first is 1 */
	uint64_t offset; /* where it begins, in bytes */
	/* its own */
	struct mt_buf text; /* of the line that is not complete */
	uint64_t passed;    /* bytes in all */
	bool is_too_long;
};

void mt_text_lines_done(struct mt_text_lines *l);

/* The next piece. 0, -ENOMEM or what take() said. */
int mt_text_lines_add(struct mt_text_lines *l, const char *data, size_t len);

/* The last line, which needs no end. As mt_text_lines_add(). */
int mt_text_lines_end(struct mt_text_lines *l);

/*
 * All that a descriptor gives, without mt_text_lines_end(). As mt_text_lines_add(); where reading
 * fails *ret_errno is why, else 0.
 */
int mt_text_lines_read(struct mt_text_lines *l, int fd, int *ret_errno);

#endif
