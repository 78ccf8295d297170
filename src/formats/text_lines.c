/* SPDX-License-Identifier: MIT */
/* See text_lines.h. No more than most_bytes of a line are ever kept. */
#include "formats/text_lines.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"

enum { CHUNK_BYTES = 256 << 10 };

void mt_text_lines_done(struct mt_text_lines *l)
{
	mt_buf_done(&l->text);
}

static int give_line(struct mt_text_lines *l)
{
	struct mt_buf *b = &l->text;
	int r = 0;

	if (b->len && b->data[b->len - 1] == '\r')
		b->data[--b->len] = 0;
	if (b->len && !l->is_too_long)
		r = l->take(l->context, b->data);
	mt_buf_truncate(b, 0);
	l->is_too_long = false;
	return r;
}

/* A part of the line that is being read. */
static int add_part(struct mt_text_lines *l, const char *data, size_t len)
{
	if (l->is_too_long)
		return 0;
	if (len <= l->most_bytes - l->text.len)
		return mt_buf_add(&l->text, data, len);
	l->is_too_long = true;
	mt_buf_truncate(&l->text, 0);
	return l->take(l->context, NULL);
}

int mt_text_lines_add(struct mt_text_lines *l, const char *data, size_t len)
{
	int r = 0;

	while (len && !r) {
		const char *end = memchr(data, '\n', len);
		size_t part = end ? (size_t)(end - data) : len;

		if (l->offset == l->passed) /* a line begins */
			l->line++;
		r = add_part(l, data, part);
		if (end && !r)
			r = give_line(l);
		part += end != NULL;
		l->passed += part;
		if (end && !r)
			l->offset = l->passed;
		data += part;
		len -= part;
	}
	return r;
}

int mt_text_lines_end(struct mt_text_lines *l)
{
	return give_line(l);
}

int mt_text_lines_read(struct mt_text_lines *l, int fd, int *ret_errno)
{
	mt_auto(free) char *chunk = mt_alloc(CHUNK_BYTES);
	int r = chunk ? 0 : -ENOMEM;

	*ret_errno = 0;
	while (!r) {
		ssize_t got = read(fd, chunk, CHUNK_BYTES);

		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0)
			*ret_errno = errno;
		if (got <= 0)
			break;
		r = mt_text_lines_add(l, chunk, (size_t)got);
	}
	return r;
}
