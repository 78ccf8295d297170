/* SPDX-License-Identifier: MIT */
/* Reading and writing of quantities. Integer arithmetic only, so results do not depend on the FPU.
 */
#include "base/units.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* A decimal number whole + fraction / scale. scale is a power of ten, at most 10^9. */
struct number {
	uint64_t whole, fraction, scale;
};

static int is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Reads digits [. digits]; returns the first byte after it, or NULL with *ret_code set. */
static const char *read_number(const char *s, struct number *n, int *ret_code)
{
	*n = (struct number){.scale = 1};
	*ret_code = -EINVAL;
	if (!is_digit(*s))
		return NULL;
	for (; is_digit(*s); s++) {
		if (__builtin_mul_overflow(n->whole, 10u, &n->whole) ||
		    __builtin_add_overflow(n->whole, (uint64_t)(*s - '0'), &n->whole)) {
			*ret_code = -ERANGE;
			return NULL;
		}
	}
	if (*s != '.')
		return s;
	s++;
	if (!is_digit(*s))
		return NULL;
	for (; is_digit(*s); s++) {
		if (n->scale >= 1000000000u)
			continue; /* finer than we keep */
		n->fraction = n->fraction * 10 + (uint64_t)(*s - '0');
		n->scale *= 10;
	}
	return s;
}

/* number * unit, rounded down. */
static int scale_number(const struct number *n, uint64_t unit, uint64_t *ret)
{
	uint64_t whole;
	if (__builtin_mul_overflow(n->whole, unit, &whole))
		return -ERANGE;
	uint64_t part = (uint64_t)((unsigned __int128)n->fraction * unit / n->scale);
	if (__builtin_add_overflow(whole, part, ret))
		return -ERANGE;
	return 0;
}

int mt_units_parse_size(const char *text, uint64_t *ret_bytes)
{
	static const char letters[] = "KMGT";
	struct number n;
	int r;
	const char *s = read_number(text, &n, &r);
	if (!s)
		return r;
	uint64_t unit = 1;
	for (unsigned i = 0; *s && i < sizeof(letters) - 1; i++)
		if ((*s & ~0x20) == letters[i])
			unit = 1ull << (10 * (i + 1));
	if (unit > 1) {
		s++;
		if (!strcasecmp(s, "iB"))
			s += 2;
	} else if (n.scale > 1) {
		return -EINVAL; /* a fraction of a byte */
	}
	if (*s == 'B' || *s == 'b')
		s++;
	if (*s)
		return -EINVAL;
	return scale_number(&n, unit, ret_bytes);
}

struct time_unit {
	const char *name;
	uint64_t ns;
};

/* Longer names first: "ms" and "min" before "m". */
static const struct time_unit time_units[] = {
	{"min", 60000000000u}, {"ns", 1},           {"us", 1000},          {"ms", 1000000},
	{"s", 1000000000},     {"m", 60000000000u}, {"h", 3600000000000u}, {"d", 86400000000000u},
};

static const struct time_unit *find_time_unit(const char *s)
{
	for (unsigned i = 0; i < MT_ARRAY_LEN(time_units); i++)
		if (!strncmp(s, time_units[i].name, strlen(time_units[i].name)))
			return &time_units[i];
	return NULL;
}

int mt_units_parse_time(const char *text, uint64_t *ret_ns)
{
	uint64_t sum = 0, part;
	const char *s = text;
	do {
		struct number n;
		int r;
		const char *unit_text = read_number(s, &n, &r);
		if (!unit_text)
			return r;
		const struct time_unit *unit = find_time_unit(unit_text);
		if (!unit && (*unit_text || s != text))
			return -EINVAL;
		r = scale_number(&n, unit ? unit->ns : 1000000000u, &part);
		if (r)
			return r;
		if (__builtin_add_overflow(sum, part, &sum))
			return -ERANGE;
		s = unit_text + (unit ? strlen(unit->name) : 0);
	} while (*s);
	*ret_ns = sum;
	return 0;
}

int mt_units_parse_count(const char *text, uint64_t *ret_count)
{
	struct number n;
	int r;
	const char *s = read_number(text, &n, &r);
	if (!s)
		return r;
	if (*s || n.scale > 1)
		return -EINVAL;
	*ret_count = n.whole;
	return 0;
}

/* value / unit with one decimal below ten (rounded to nearest), none above. */
static void format_scaled(uint64_t value, uint64_t unit, const char *name, char *text)
{
	uint64_t tenths = (uint64_t)(((unsigned __int128)value * 10 + unit / 2) / unit);
	if (tenths < 1000)
		snprintf(text, MT_UNITS_TEXT_MAX, "%llu.%llu %s", (unsigned long long)(tenths / 10),
			 (unsigned long long)(tenths % 10), name);
	else
		snprintf(text, MT_UNITS_TEXT_MAX, "%llu %s",
			 (unsigned long long)((value + unit / 2) / unit), name);
}

char *mt_units_size(uint64_t bytes, char *text)
{
	static const char *const names[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	unsigned i = 0;
	if (bytes < 1024) {
		snprintf(text, MT_UNITS_TEXT_MAX, "%llu B", (unsigned long long)bytes);
		return text;
	}
	/* the next unit as soon as rounding would show 1024 of this one */
	while (i < 6 && (bytes >> (10 * i)) >= 1024)
		i++;
	if (i < 6 && (unsigned __int128)bytes * 2 >= ((unsigned __int128)2047 << (10 * i)))
		i++;
	format_scaled(bytes, 1ull << (10 * i), names[i], text);
	return text;
}

void mt_units_add_size(struct mt_buf *out, uint64_t bytes)
{
	char text[MT_UNITS_TEXT_MAX];

	mt_buf_adds(out, mt_units_size(bytes, text));
}

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

/* Puts the sign of v before what write() makes of its magnitude. */
static char *format_signed(int64_t v, char *text, char *(*write)(uint64_t, char *))
{
	char plain[MT_UNITS_TEXT_MAX];
	write(magnitude(v), plain);
	snprintf(text, MT_UNITS_TEXT_MAX, "%s%.*s",
		 v < 0   ? "-"
		 : v > 0 ? "+"
			 : "",
		 MT_UNITS_TEXT_MAX - 2, plain);
	return text;
}

char *mt_units_size_signed(int64_t bytes, char *text)
{
	return format_signed(bytes, text, mt_units_size);
}

static char *format_two(uint64_t big, const char *big_name, uint64_t small, const char *small_name,
			char *text)
{
	snprintf(text, MT_UNITS_TEXT_MAX, "%llu %s %02llu %s", (unsigned long long)big, big_name,
		 (unsigned long long)small, small_name);
	return text;
}

char *mt_units_time(uint64_t ns, char *text)
{
	uint64_t s = ns / 1000000000u;
	if (s >= 86400)
		return format_two(s / 86400, "d", s % 86400 / 3600, "h", text);
	if (s >= 3600)
		return format_two(s / 3600, "h", s % 3600 / 60, "min", text);
	if (s >= 60)
		return format_two(s / 60, "min", s % 60, "s", text);
	if (ns < 1000)
		snprintf(text, MT_UNITS_TEXT_MAX, "%llu ns", (unsigned long long)ns);
	else if (ns < 999500)
		format_scaled(ns, 1000, "us", text);
	else if (ns < 999500000u)
		format_scaled(ns, 1000000, "ms", text);
	else
		format_scaled(ns, 1000000000u, "s", text);
	return text;
}

char *mt_units_count(uint64_t count, char *text)
{
	char digits[24];
	int len = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)count), at = 0;
	for (int i = 0; i < len; i++) {
		if (i && (len - i) % 3 == 0)
			text[at++] = ',';
		text[at++] = digits[i];
	}
	text[at] = 0;
	return text;
}

char *mt_units_count_signed(int64_t count, char *text)
{
	return format_signed(count, text, mt_units_count);
}

char *mt_units_percent(uint64_t part, uint64_t whole, char *text)
{
	uint64_t tenths = 0;
	if (whole)
		tenths = (uint64_t)(((unsigned __int128)part * 1000 + whole / 2) / whole);
	snprintf(text, MT_UNITS_TEXT_MAX, "%llu.%llu %%", (unsigned long long)(tenths / 10),
		 (unsigned long long)(tenths % 10));
	return text;
}
