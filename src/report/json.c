/* SPDX-License-Identifier: MIT */
/* A JSON writer: RFC 8259, two blanks a level. */

#include "report/json.h"

#include "base/escape.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

static void add_text(struct mt_buf *out, const char *text)
{
	mt_buf_addc(out, '"');
	for (;;) {
		size_t plain = mt_plain_len(text, '"', '\\');

		mt_buf_add(out, text, plain);
		text += plain;
		if (!*text)
			break;
		size_t len = mt_utf8_len(text);
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			mt_buf_printf(out, "\\%c", c);
		else if (c < ' ' || c == 0x7f)
			mt_buf_printf(out, "\\u%04x", c);
		else if (!len)
			mt_buf_adds(out, "\\ufffd");
		else
			mt_buf_add(out, text, len);
		text += len ? len : 1;
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

void mt_json_real(struct mt_json *j, const char *name, double number)
{
	begin(j, name);
	if (isfinite(number))
		mt_buf_printf(j->out, "%.6g", number);
	else
		mt_buf_adds(j->out, "null");
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
