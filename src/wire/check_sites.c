/* SPDX-License-Identifier: MIT */
/* Lists of call sites; see check_sites.h. */
#include "wire/check_sites.h"

enum { HASH_DIGITS = 16 };

/* The value of 1 to 16 hexadecimal digits: 1, or 0: it is something else. */
static int read_hex(const char *at, const char *end, uint64_t *ret_value)
{
	uint64_t v = 0;
	if (at >= end || end - at > HASH_DIGITS)
		return 0;
	for (; at < end; at++) {
		char low = (char)(*at | 32);
		if (*at >= '0' && *at <= '9')
			v = v << 4 | (uint64_t)(*at - '0');
		else if (low >= 'a' && low <= 'f')
			v = v << 4 | (uint64_t)(low - 'a' + 10);
		else
			return 0;
	}
	*ret_value = v;
	return 1;
}

static int has_prefix(const char *at, const char *end)
{
	return end - at >= 2 && at[0] == '0' && at[1] == 'x';
}

static int read_hash(const char *at, const char *end, struct mt_check_site *s)
{
	if (has_prefix(at, end))
		at += 2;
	s->module = NULL;
	s->module_len = 0;
	return end - at == HASH_DIGITS && read_hex(at, end, &s->value);
}

/* The last '+' counts: names of libraries have some, too. */
static int read_frame(const char *at, const char *end, struct mt_check_site *s)
{
	const char *plus = end;
	while (plus > at && plus[-1] != '+')
		plus--;
	if (plus <= at + 1 || !has_prefix(plus, end))
		return 0;
	s->module = at;
	s->module_len = (size_t)(plus - 1 - at);
	return read_hex(plus + 2, end, &s->value);
}

int mt_check_site_next(const char **at, const char *end, struct mt_check_site *ret_site)
{
	const char *from = *at, *to = from;
	while (to < end && *to != ',')
		to++;
	*at = to + (to < end);
	if (to + 1 == end) /* nothing follows the comma */
		return 0;
	return read_hash(from, to, ret_site) || read_frame(from, to, ret_site);
}

int mt_check_sites_are_good(const char *at, const char *end)
{
	struct mt_check_site s;
	if (at == end)
		return 0;
	while (at < end)
		if (!mt_check_site_next(&at, end, &s))
			return 0;
	return 1;
}
