/* SPDX-License-Identifier: MIT */
/* Escaping for people: the output is valid UTF-8 of one line without control characters. */

#include "base/escape.h"

#include <errno.h>

size_t mt_utf8_len(const char *text)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t len = s[0] < 0x80                   ? 1
		     : s[0] >= 0xc2 && s[0] < 0xe0 ? 2
		     : (s[0] & 0xf0) == 0xe0       ? 3
		     : s[0] >= 0xf0 && s[0] < 0xf5 ? 4
						   : 0;

	for (size_t i = 1; i < len; i++)
		if ((s[i] & 0xc0) != 0x80)
			return 0;
	if (len == 3 && ((s[0] == 0xe0 && s[1] < 0xa0) || (s[0] == 0xed && s[1] > 0x9f)))
		return 0; /* overlong or surrogate */
	if (len == 4 && ((s[0] == 0xf0 && s[1] < 0x90) || (s[0] == 0xf4 && s[1] > 0x8f)))
		return 0;
	return len;
}

/* The character of a valid sequence of 1 to 3 bytes; 0 for longer ones, which hold no controls. */
static unsigned decode(const unsigned char *s, size_t len)
{
	switch (len) {
	case 1:
		return s[0];
	case 2:
		return (s[0] & 0x1fu) << 6 | (s[1] & 0x3fu);
	case 3:
		return (s[0] & 0x0fu) << 12 | (s[1] & 0x3fu) << 6 | (s[2] & 0x3fu);
	default:
		return 0;
	}
}

static bool is_control(unsigned c)
{
	return (c >= 0x80 && c < 0xa0) || c == 0x061c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

int mt_escape(struct mt_buf *out, const char *text)
{
	for (;;) {
		size_t plain = mt_plain_len(text, 0, 0);

		mt_buf_add(out, text, plain);
		text += plain;
		if (!*text)
			break;
		size_t len = mt_utf8_len(text);
		unsigned byte = (unsigned char)*text;
		unsigned c = decode((const unsigned char *)text, len);

		if (byte == '\n' || byte == '\t' || byte == '\r')
			mt_buf_printf(out, "\\%c", byte == '\n' ? 'n' : byte == '\t' ? 't' : 'r');
		else if (!len || byte < ' ' || byte == 0x7f)
			mt_buf_printf(out, "\\x%02x", byte);
		else if (is_control(c))
			mt_buf_printf(out, "\\u{%x}", c);
		else
			mt_buf_add(out, text, len);
		text += len ? len : 1;
	}
	return out->failed ? -ENOMEM : 0;
}
