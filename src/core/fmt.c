/* SPDX-License-Identifier: MIT */
/* Formatting and parsing of numbers and strings for code that may not call libc. */
#include "core/fmt.h"

#include "core/sys.h"

void mt_fmt_init(struct mt_fmt *f, char *buf, size_t bytes)
{
	f->at = buf;
	f->end = buf + bytes - 1;
	*buf = 0;
}

static void put(struct mt_fmt *f, char c)
{
	if (f->at >= f->end)
		return;
	*f->at++ = c;
	*f->at = 0;
}

void mt_fmt_str(struct mt_fmt *f, const char *s)
{
	while (*s)
		put(f, *s++);
}

void mt_fmt_u64(struct mt_fmt *f, uint64_t v)
{
	char digit[20];
	int n = 0;
	do
		digit[n++] = (char)('0' + v % 10);
	while (v /= 10);
	while (n)
		put(f, digit[--n]);
}

void mt_fmt_i64(struct mt_fmt *f, int64_t v)
{
	if (v < 0)
		put(f, '-');
	mt_fmt_u64(f, v < 0 ? -(uint64_t)v : (uint64_t)v);
}

void mt_fmt_hex(struct mt_fmt *f, uint64_t v, unsigned digits)
{
	unsigned n = 1;
	while (n < 16 && v >> (4 * n))
		n++;
	for (n = n > digits ? n : digits; n; n--)
		put(f, "0123456789abcdef"[n > 16 ? 0 : v >> (4 * (n - 1)) & 15]);
}

int mt_fmt_parse_u64(const char **s, uint64_t *ret_value)
{
	uint64_t v = 0;
	const char *c = *s;
	if (*c < '0' || *c > '9')
		return -MT_EINVAL;
	for (; *c >= '0' && *c <= '9'; c++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, *c - '0', &v))
			return -MT_EINVAL;
	*s = c;
	*ret_value = v;
	return 0;
}
