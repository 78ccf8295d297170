/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_UNITS_H
#define MT_BASE_UNITS_H

/*
 * Sizes, times and counts as people write and read them. No locale: '.' is the decimal point and
 * ',' groups thousands everywhere.
 */

#include "base/buf.h"
#include "core/cc.h"

enum { MT_UNITS_TEXT_MAX = 40 }; /* enough for every result below, NUL included */

/*
 * A size in bytes: digits, then nothing or one of B K M G T (KB, KiB and so on too, any case), all
 * in steps of 1024; a fraction is allowed before K M G T ("1.5M"). 0, -EINVAL (not a size) or
 * -ERANGE.
 */
int mt_units_parse_size(const char *text, uint64_t *ret_bytes);

/*
 * A time in nanoseconds: a number, fraction allowed, with ns, us, ms, s, m (or min), h or d;
 * several parts may follow each other ("1m30s"). A bare number is in seconds. 0, -EINVAL or
 * -ERANGE.
 */
int mt_units_parse_time(const char *text, uint64_t *ret_ns);

/* A whole decimal number, commas not allowed. 0, -EINVAL or -ERANGE. */
int mt_units_parse_count(const char *text, uint64_t *ret_count);

/*
 * Writers: `text` has room for MT_UNITS_TEXT_MAX bytes; all return text.
 * Sizes: "0 B", "1023 B", "1.0 KiB", "1.2 MiB", "117 GiB" (three digits or fewer).
 */
char *mt_units_size(uint64_t bytes, char *text);
/* The same behind a text. */
void mt_units_add_size(struct mt_buf *out, uint64_t bytes);
/* As above with a sign: "+1.2 MiB", "-3 B", "0 B". */
char *mt_units_size_signed(int64_t bytes, char *text);
/* "0 ns", "12 us", "3.4 ms", "56.1 s", "3 min 07 s", "2 h 05 min", "3 d 04 h". */
char *mt_units_time(uint64_t ns, char *text);
/* "1,234,567". */
char *mt_units_count(uint64_t count, char *text);
/* The same for an argument of a printing function: the text lives as long as the block around. */
#define MT_COUNT(count) mt_units_count(count, (char[MT_UNITS_TEXT_MAX]){0})
/* "+1,234", "-1", "0". */
char *mt_units_count_signed(int64_t count, char *text);
/* part of whole in per cent, one decimal: "12.3 %"; "0.0 %" when whole is 0. */
char *mt_units_percent(uint64_t part, uint64_t whole, char *text);

#endif
