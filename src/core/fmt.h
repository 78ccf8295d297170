/* SPDX-License-Identifier: MIT */
#ifndef MT_CORE_FMT_H
#define MT_CORE_FMT_H

/*
 * Text without libc, into a caller's buffer. Output that does not fit is cut; the buffer always
 * ends with NUL. Async-signal-safe.
 */

#include "core/cc.h"

struct mt_fmt {
	char *at;
	char *end; /* one before the last byte: room for NUL */
};

void mt_fmt_init(struct mt_fmt *f, char *buf, size_t bytes);
void mt_fmt_str(struct mt_fmt *f, const char *s);
void mt_fmt_u64(struct mt_fmt *f, uint64_t v);
void mt_fmt_i64(struct mt_fmt *f, int64_t v);
/* Lower-case hexadecimal, at least `digits` digits. */
void mt_fmt_hex(struct mt_fmt *f, uint64_t v, unsigned digits);
/* Reads an unsigned decimal number; *s moves behind it. -EINVAL: no digit or overflow. */
int mt_fmt_parse_u64(const char **s, uint64_t *ret_value);

#endif
