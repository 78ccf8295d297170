/* SPDX-License-Identifier: MIT */
/*
 * One line at a time. A record is taken only as a whole: a line with a word that does not belong
 * there is garbage, since what is left of it would be a record with other numbers.
 */
#include "formats/heapdump_line.h"

#include <string.h>

enum { DECIMAL = 10, HEX = 16 };

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static const char *skip_blanks(const char *p)
{
	while (is_blank(*p))
		p++;
	return p;
}

/* Value of a digit, 16 for what is none. */
static unsigned digit_value(char c)
{
	if (c >= '0' && c <= '9')
		return (unsigned)(c - '0');
	if (c >= 'a' && c <= 'f')
		return (unsigned)(c - 'a') + 10;
	if (c >= 'A' && c <= 'F')
		return (unsigned)(c - 'A') + 10;
	return HEX;
}

/* Digits at *p, which moves behind them. False: there are none, or they are too many. */
static bool take_digits(const char **p, unsigned base, uint64_t *ret)
{
	uint64_t value = 0;
	const char *at = *p;

	if (base == HEX && at[0] == '0' && (at[1] == 'x' || at[1] == 'X') &&
	    digit_value(at[2]) < base)
		at += 2;
	if (digit_value(*at) >= base)
		return false;
	for (; digit_value(*at) < base; at++)
		if (__builtin_mul_overflow(value, (uint64_t)base, &value) ||
		    __builtin_add_overflow(value, (uint64_t)digit_value(*at), &value))
			return false;
	*p = at;
	*ret = value;
	return true;
}

/* A number that is a whole word, blanks before it; *p moves behind it. */
static bool take_number(const char **p, unsigned base, uint64_t *ret)
{
	const char *at = skip_blanks(*p);

	if (!take_digits(&at, base, ret) || (*at && !is_blank(*at)))
		return false;
	*p = at;
	return true;
}

/* This word, blanks before it. */
static bool take_word(const char **p, const char *word)
{
	const char *at = skip_blanks(*p);
	size_t len = strlen(word);

	if (strncmp(at, word, len) || (at[len] && !is_blank(at[len])))
		return false;
	*p = at + len;
	return true;
}

static bool take_char(const char **p, char c)
{
	if (**p != c)
		return false;
	++*p;
	return true;
}

/* "NAME: NUMBER" */
static bool parse_field(const char *text, const char *name, uint64_t *ret)
{
	size_t len = strlen(name);
	const char *p = text + len;

	return !strncmp(text, name, len) && take_number(&p, DECIMAL, ret) && !*skip_blanks(p);
}

static bool parse_version(const char *text, struct mt_heapdump_line *l)
{
	static const char head[] = "Android Native Heap Dump";
	const char *p = text + sizeof(head) - 1;
	uint64_t major, minor;

	if (strncmp(text, head, sizeof(head) - 1))
		return false;
	l->kind = MT_HEAPDUMP_VERSION;
	p = skip_blanks(p);
	if (take_char(&p, 'v') && take_digits(&p, DECIMAL, &major) && take_char(&p, '.') &&
	    take_digits(&p, DECIMAL, &minor) && major < 1000 && minor < 10)
		l->number = major * 10 + minor;
	return true;
}

/* "z 0  sz      400  num    1  bt a2a0 b510" */
static bool parse_record(const char *text, struct mt_heapdump_line *l)
{
	const char *p = text;
	uint64_t zygote, address;

	if (!take_word(&p, "z") || !take_number(&p, DECIMAL, &zygote) || !take_word(&p, "sz") ||
	    !take_number(&p, DECIMAL, &l->size) || !take_word(&p, "num") ||
	    !take_number(&p, DECIMAL, &l->num) || !take_word(&p, "bt"))
		return false;
	l->is_app = zygote == 1;
	l->rest = p;
	while (take_number(&p, HEX, &address))
		;
	if (*skip_blanks(p))
		return false;
	l->kind = MT_HEAPDUMP_RECORD;
	return true;
}

/* "7f00-7f10 r-xp 00001000 08:01 1234      /usr/lib/x.so" */
static bool parse_map(const char *text, struct mt_heapdump_line *l)
{
	const char *p = text, *perms;
	uint64_t part;

	if (!take_digits(&p, HEX, &l->lo) || !take_char(&p, '-') || !take_digits(&p, HEX, &l->hi) ||
	    !is_blank(*p))
		return false;
	perms = skip_blanks(p);
	if (strcspn(perms, " \t") != 4)
		return false;
	p = perms + 4;
	if (!take_number(&p, HEX, &l->offset))
		return false;
	p = skip_blanks(p);
	if (!take_digits(&p, HEX, &part) || !take_char(&p, ':') || !take_number(&p, HEX, &part) ||
	    !take_number(&p, DECIMAL, &part))
		return false;
	l->path = skip_blanks(p);
	l->kind = MT_HEAPDUMP_MAP;
	return l->lo < l->hi;
}

/* "module 7f00-7f10 bias 7e00 id 0a1b2c /usr/lib/x.so", "id -" without one */
static bool parse_module(const char *text, struct mt_heapdump_line *l)
{
	const char *p = text;

	if (!take_word(&p, "module"))
		return false;
	p = skip_blanks(p);
	if (!take_digits(&p, HEX, &l->lo) || !take_char(&p, '-') || !take_number(&p, HEX, &l->hi) ||
	    !take_word(&p, "bias") || !take_number(&p, HEX, &l->bias) || !take_word(&p, "id"))
		return false;
	l->id = skip_blanks(p);
	while (digit_value(l->id[l->id_len]) < HEX)
		l->id_len++;
	p = l->id + (l->id_len ? l->id_len : *l->id == '-');
	if (!is_blank(*p) || l->id_len % 2)
		return false;
	l->path = skip_blanks(p);
	l->kind = MT_HEAPDUMP_MODULE;
	return *l->path && l->lo < l->hi;
}

static bool parse_plain(const char *text, struct mt_heapdump_line *l)
{
	static const struct {
		const char *name;
		enum mt_heapdump_kind kind;
	} fields[] = {
		{"Total memory:", MT_HEAPDUMP_TOTAL},
		{"Allocation records:", MT_HEAPDUMP_RECORDS},
		{"Backtrace size:", MT_HEAPDUMP_DEPTH},
	};

	if (!*skip_blanks(text))
		l->kind = MT_HEAPDUMP_BLANK;
	else if (!strcmp(text, "MAPS") || !strncmp(text, "Could not open /proc/", 21))
		l->kind = MT_HEAPDUMP_MAPS;
	else if (!strcmp(text, "END"))
		l->kind = MT_HEAPDUMP_END;
	else if (!strncmp(text, "Build fingerprint:", 18))
		l->kind = MT_HEAPDUMP_FINGERPRINT;
	for (int i = 0; i < 3 && !l->kind; i++)
		if (parse_field(text, fields[i].name, &l->number))
			l->kind = fields[i].kind;
	return l->kind != MT_HEAPDUMP_OTHER;
}

void mt_heapdump_parse(const char *text, struct mt_heapdump_line *ret_line)
{
	static bool (*const parsers[])(const char *, struct mt_heapdump_line *) = {
		parse_record, parse_map, parse_plain, parse_version, parse_module};
	struct mt_heapdump_line l = {0};
	const char *p = text;

	for (unsigned i = 0; i < sizeof(parsers) / sizeof(parsers[0]); i++) {
		l = (struct mt_heapdump_line){0};
		if (parsers[i](text, &l)) {
			*ret_line = l;
			return;
		}
	}
	*ret_line = (struct mt_heapdump_line){0};
	if (!is_blank(*text) || !take_word(&p, "bt_info"))
		return;
	ret_line->kind = MT_HEAPDUMP_INFO;
	ret_line->rest = p;
}

bool mt_heapdump_next_frame(const char **rest, uint64_t *ret_address)
{
	return take_number(rest, HEX, ret_address) && *ret_address;
}

/* Where `" ` and a number stand behind a name: its end, and *p moves to what follows. */
static const char *take_name(const char **p, char after, uint64_t *ret_number)
{
	for (const char *end = strchr(*p, '"'); end; end = strchr(end + 1, '"')) {
		const char *at = end + 1;

		if (!take_char(&at, ' ') || !take_digits(&at, HEX, ret_number) || *at != after)
			continue;
		/* a name may hold what looks like the end of a frame: the true one is last on the
		 * line, or another frame follows */
		if (after == '}' && *skip_blanks(at + 1) && strncmp(skip_blanks(at + 1), "{\"", 2))
			continue;
		*p = at + 1;
		return end;
	}
	return NULL;
}

bool mt_heapdump_next_info(const char **rest, struct mt_heapdump_info *ret_info)
{
	const char *p = skip_blanks(*rest), *map, *function, *end;
	struct mt_heapdump_info info;

	if (strncmp(p, "{\"", 2))
		return false;
	map = p += 2;
	end = take_name(&p, ' ', &info.relative);
	if (!end || !take_char(&p, '"'))
		return false;
	info.map = map;
	info.map_len = (uint32_t)(end - map);
	function = p;
	end = take_name(&p, '}', &info.offset);
	if (!end)
		return false;
	info.function = function;
	info.function_len = (uint32_t)(end - function);
	*ret_info = info;
	*rest = p;
	return true;
}
