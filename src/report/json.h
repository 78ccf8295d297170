/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_JSON_H
#define MT_REPORT_JSON_H

/*
 * Writes JSON into a buffer, indented by two blanks. Strings that are not UTF-8 have their bad
 * bytes replaced by U+FFFD. Memory failures are remembered by the buffer. Not thread-safe.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"

struct mt_json {
	struct mt_buf *out; /* borrowed */
	unsigned depth;
	bool has_items; /* of the innermost open object or array */
};

/* Every writer takes the member's name; NULL inside an array and for the outermost value. */
void mt_json_open(struct mt_json *j, const char *name, char bracket /* { or [ */);
void mt_json_close(struct mt_json *j, char bracket /* } or ] */);
void mt_json_string(struct mt_json *j, const char *name, const char *text);
void mt_json_u64(struct mt_json *j, const char *name, uint64_t number);
void mt_json_i64(struct mt_json *j, const char *name, int64_t number);
/* With at most 6 digits; null for what is no number. */
void mt_json_real(struct mt_json *j, const char *name, double number);
void mt_json_bool(struct mt_json *j, const char *name, bool value);
void mt_json_null(struct mt_json *j, const char *name);
/* A 64-bit hash as 16 hexadecimal digits in a string. */
void mt_json_hash(struct mt_json *j, const char *name, uint64_t hash);

#endif
