/* SPDX-License-Identifier: MIT */
/* A JSON writer: RFC 8259, two blanks a level. */

#include "report/json.h"

#include <inttypes.h>
#include <string.h>

/* Length of the valid UTF-8 sequence at s, 0 when there is none. */
static size_t utf8_len(const unsigned char *s)
{
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

static void add_text(struct mt_buf *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	mt_buf_addc(out, '"');
	while (*s) {
		size_t len = utf8_len(s);

		if (*s == '"' || *s == '\\')
			mt_buf_printf(out, "\\%c", *s);
		else if (*s < ' ' || *s == 0x7f)
			mt_buf_printf(out, "\\u%04x", *s);
		else if (!len)
			mt_buf_adds(out, "\\ufffd");
		else
			mt_buf_add(out, s, len);
		s += len ? len : 1;
	}
	mt_buf_addc(out, '"');
}

static void begin(struct mt_json *j, const char *name)
{
	if (j->has_items)
		mt_buf_addc(j->out, ',');
	if (j->depth)
		mt_buf_addc(j->out, '\n');
	mt_buf_pad(j->out, ' ', (size_t)2 * j->depth);
	j->has_items = true;
	if (name) {
		add_text(j->out, name);
		mt_buf_adds(j->out, ": ");
	}
}

void mt_json_open(struct mt_json *j, const char *name, char bracket)
{
	begin(j, name);
	mt_buf_addc(j->out, bracket);
	j->depth++;
	j->has_items = false;
}

void mt_json_close(struct mt_json *j, char bracket)
{
	j->depth--;
	if (j->has_items) {
		mt_buf_addc(j->out, '\n');
		mt_buf_pad(j->out, ' ', (size_t)2 * j->depth);
	}
	mt_buf_addc(j->out, bracket);
	j->has_items = true;
	if (!j->depth)
		mt_buf_addc(j->out, '\n');
}

void mt_json_string(struct mt_json *j, const char *name, const char *text)
{
	begin(j, name);
	add_text(j->out, text);
}

void mt_json_u64(struct mt_json *j, const char *name, uint64_t number)
{
	begin(j, name);
	mt_buf_printf(j->out, "%" PRIu64, number);
}

void mt_json_i64(struct mt_json *j, const char *name, int64_t number)
{
	begin(j, name);
	mt_buf_printf(j->out, "%" PRId64, number);
}

void mt_json_bool(struct mt_json *j, const char *name, bool value)
{
	begin(j, name);
	mt_buf_adds(j->out, value ? "true" : "false");
}

void mt_json_null(struct mt_json *j, const char *name)
{
	begin(j, name);
	mt_buf_adds(j->out, "null");
}

void mt_json_hash(struct mt_json *j, const char *name, uint64_t hash)
{
	begin(j, name);
	mt_buf_printf(j->out, "\"%016" PRIx64 "\"", hash);
}
