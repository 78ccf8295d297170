/* SPDX-License-Identifier: MIT */
/* Growing buffer. Invariant: data == NULL, or len < cap and data[len] == 0. */
#include "base/buf.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"

enum { PRINTF_ROOM = 64 }; /* most texts fit */

void mt_buf_done(struct mt_buf *b)
{
	if (!b)
		return;
	free(b->data);
	*b = (struct mt_buf){0};
}

int mt_buf_reserve(struct mt_buf *b, size_t extra)
{
	size_t need;
	char *grown = NULL;
	if (b->drain && b->len >= MT_BUF_DRAIN_BYTES) {
		b->drain(b->drain_context, b->data, b->len);
		b->len = 0;
		b->data[0] = 0;
	}
	if (b->data && extra < b->cap - b->len)
		return 0;
	if (!__builtin_add_overflow(b->len, extra, &need) &&
	    !__builtin_add_overflow(need, 1, &need))
		grown = mt_alloc_grow(b->data, &b->cap, need, 1);
	if (!grown) {
		b->failed = true;
		return -ENOMEM;
	}
	b->data = grown;
	b->data[b->len] = 0;
	return 0;
}

int mt_buf_add(struct mt_buf *b, const void *data, size_t len)
{
	int r = mt_buf_reserve(b, len);
	if (r)
		return r;
	if (len)
		memcpy(b->data + b->len, data, len);
	b->len += len;
	b->data[b->len] = 0;
	return 0;
}

int mt_buf_adds(struct mt_buf *b, const char *s)
{
	return mt_buf_add(b, s, strlen(s));
}

int mt_buf_addc(struct mt_buf *b, char c)
{
	return mt_buf_add(b, &c, 1);
}

int mt_buf_pad(struct mt_buf *b, char c, size_t count)
{
	int r = mt_buf_reserve(b, count);
	if (r)
		return r;
	memset(b->data + b->len, c, count);
	b->len += count;
	b->data[b->len] = 0;
	return 0;
}

int mt_buf_vprintf(struct mt_buf *b, const char *fmt, va_list ap)
{
	va_list again;
	int r = mt_buf_reserve(b, PRINTF_ROOM);
	if (r)
		return r;
	va_copy(again, ap);
	int len = vsnprintf(b->data + b->len, b->cap - b->len, fmt, again);
	va_end(again);
	if (len >= 0 && (size_t)len >= b->cap - b->len) { /* cut: once more with enough room */
		b->data[b->len] = 0;
		r = mt_buf_reserve(b, (size_t)len);
		if (r)
			return r;
		vsnprintf(b->data + b->len, (size_t)len + 1, fmt, ap);
	}
	if (len < 0) {
		b->data[b->len] = 0;
		b->failed = true;
		return -ENOMEM;
	}
	b->len += (size_t)len;
	return 0;
}

int mt_buf_printf(struct mt_buf *b, const char *fmt, ...)
{
	va_list ap;
	va_start(ap, fmt);
	int r = mt_buf_vprintf(b, fmt, ap);
	va_end(ap);
	return r;
}

void mt_buf_truncate(struct mt_buf *b, size_t len)
{
	if (!len)
		b->failed = false;
	if (len >= b->len)
		return;
	b->len = len;
	b->data[len] = 0;
}

const char *mt_buf_text(const struct mt_buf *b)
{
	return b->data ? b->data : "";
}

char *mt_buf_steal(struct mt_buf *b, size_t *ret_len)
{
	if (b->failed || mt_buf_reserve(b, 0)) {
		mt_buf_done(b);
		return NULL;
	}
	char *data = b->data;
	if (ret_len)
		*ret_len = b->len;
	*b = (struct mt_buf){0};
	return data;
}
