/* SPDX-License-Identifier: MIT */
/*
 * Parsing by table. Long options take their argument as --name=VALUE or --name VALUE, letters as
 * -xVALUE or -x VALUE; letters without arguments may be joined. "--" ends the options.
 */

#include "cli/command.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/units.h"
#include "core/cc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <string.h>

enum { WORD_MAX = 64 };

struct parser {
	const struct mt_command *command;
	char *values; /* the command's options */
	int argc, at;
	char **argv;
	char **operand;
	int operand_count;
};

void mt_complain(const char *fmt, ...)
{
	mt_auto(mt_buf) struct mt_buf sentence = {0}, clean = {0};
	va_list ap;

	va_start(ap, fmt);
	mt_buf_vprintf(&sentence, fmt, ap);
	va_end(ap);
	fflush(stdout);
	/* names in it may come from a state file or the file system: no control byte gets through
	 */
	mt_escape(&clean, mt_buf_text(&sentence));
	fprintf(stderr, "memtrack: %s\n",
		clean.failed || sentence.failed ? "cannot allocate memory" : mt_buf_text(&clean));
}

unsigned mt_command_distance(const char *a, const char *b)
{
	unsigned row[3][WORD_MAX + 1];
	size_t la = strlen(a), lb = strlen(b);

	if (la > WORD_MAX || lb > WORD_MAX)
		return UINT32_MAX;
	for (size_t j = 0; j <= lb; j++)
		row[0][j] = (unsigned)j;
	for (size_t i = 1; i <= la; i++) {
		unsigned *now = row[i % 3], *last = row[(i + 2) % 3], *older = row[(i + 1) % 3];

		now[0] = (unsigned)i;
		for (size_t j = 1; j <= lb; j++) {
			unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);

			best = MT_MIN(best, MT_MIN(last[j], now[j - 1]) + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				best = MT_MIN(best, older[j - 2] + 1);
			now[j] = best;
		}
	}
	return row[la % 3][lb];
}

/* Near enough to be a slip of the fingers. */
static bool is_near(const char *word, const char *candidate, unsigned *best)
{
	unsigned distance = mt_command_distance(word, candidate);
	size_t len = strlen(candidate);

	if (len > strlen(word) && strlen(word) >= 3 && !strncmp(word, candidate, strlen(word)))
		distance = 1; /* cut short */
	if (distance >= *best || distance > 1 + len / 4)
		return false;
	*best = distance;
	return true;
}

const struct mt_command *mt_command_find(const char *name)
{
	for (const struct mt_command *const *c = mt_commands; *c; c++)
		if (!strcmp((*c)->name, name))
			return *c;
	return NULL;
}

const char *mt_command_nearest(const char *name)
{
	const char *nearest = NULL;
	unsigned best = UINT32_MAX;

	for (const struct mt_command *const *c = mt_commands; *c; c++)
		if (is_near(name, (*c)->name, &best))
			nearest = (*c)->name;
	return nearest;
}

static int usage_error(const struct parser *p, const char *fmt, ...) MT_PRINTF(2, 3);

static int usage_error(const struct parser *p, const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	mt_complain("%s: %s; see 'memtrack %s --help'", p->command->name, text, p->command->name);
	return -EINVAL;
}

static const struct mt_option *find_option(const struct parser *p, const char *name, size_t len)
{
	for (const struct mt_option *o = p->command->options; o->name; o++)
		if (strlen(o->name) == len && !strncmp(o->name, name, len))
			return o;
	return NULL;
}

static int unknown_option(const struct parser *p, const char *name, size_t len)
{
	const char *nearest = NULL;
	unsigned best = UINT32_MAX;
	char word[WORD_MAX + 1];

	snprintf(word, sizeof(word), "%.*s", (int)MT_MIN(len, (size_t)WORD_MAX), name);
	for (const struct mt_option *o = p->command->options; o->name; o++)
		if (is_near(word, o->name, &best))
			nearest = o->name;
	if (nearest)
		return usage_error(p, "unknown option '--%s', did you mean '--%s'?", word, nearest);
	return usage_error(p, "unknown option '--%s'", word);
}

static int parse_choice(const struct parser *p, const struct mt_option *o, const char *text,
			int *ret)
{
	int at = 0;

	for (const char *c = o->choices; c; at++) {
		size_t len = strcspn(c, "|");

		if (strlen(text) == len && !strncmp(text, c, len)) {
			*ret = at;
			return 0;
		}
		c = c[len] ? c + len + 1 : NULL;
	}
	return usage_error(p, "'--%s=%s' is none of %s", o->name, text, o->choices);
}

static int parse_number(const struct parser *p, const struct mt_option *o, const char *text,
			uint64_t *ret)
{
	uint64_t number;

	if (mt_units_parse_count(text, &number) || number < o->min || number > o->max)
		return usage_error(p, "'--%s=%s' is no number from %" PRIu64 " to %" PRIu64,
				   o->name, text, o->min, o->max);
	*ret = number;
	return 0;
}

static int set_list(const struct parser *p, const struct mt_option *o, const char *text)
{
	struct mt_text_list *list = (struct mt_text_list *)(p->values + o->offset);

	if (list->count == MT_ARRAY_LEN(list->text))
		return usage_error(p, "'--%s' is given too often", o->name);
	list->text[list->count++] = text;
	return 0;
}

static int set_option(const struct parser *p, const struct mt_option *o, const char *text)
{
	void *value = p->values + o->offset;

	switch (o->kind) {
	case MT_OPTION_FLAG:
		*(bool *)value = true;
		return 0;
	case MT_OPTION_SET:
		*(int *)value = o->set_value;
		return 0;
	case MT_OPTION_TEXT:
		*(const char **)value = text;
		return 0;
	case MT_OPTION_LIST:
		return set_list(p, o, text);
	case MT_OPTION_SIZE:
		if (mt_units_parse_size(text, value))
			return usage_error(p, "'--%s=%s' is no size (examples: 4096, 64K, 1.5M)",
					   o->name, text);
		if (*(const uint64_t *)value < o->min)
			return usage_error(p, "'--%s=%s' is too small: %s is the least", o->name,
					   text, o->least);
		return 0;
	case MT_OPTION_TIME:
		if (mt_units_parse_time(text, value))
			return usage_error(p, "'--%s=%s' is no time (examples: 500ms, 10s, 5m, 1h)",
					   o->name, text);
		if (*(const uint64_t *)value < o->min)
			return usage_error(p, "'--%s=%s' is too short: %s is the least", o->name,
					   text, o->least);
		return 0;
	case MT_OPTION_NUMBER:
		return parse_number(p, o, text, value);
	case MT_OPTION_CHOICE:
		return parse_choice(p, o, text, value);
	}
	return -EINVAL;
}

static int take_next(struct parser *p, const struct mt_option *o, const char **ret_text)
{
	if (p->at >= p->argc)
		return usage_error(p, "'--%s' needs a value (%s)", o->name, o->argument);
	*ret_text = p->argv[p->at++];
	return 0;
}

static int parse_long(struct parser *p, const char *word)
{
	size_t len = strcspn(word, "=");
	const struct mt_option *o = find_option(p, word, len);
	const char *text = word[len] ? word + len + 1 : NULL;

	if (!o)
		return unknown_option(p, word, len);
	if (text && !o->argument)
		return usage_error(p, "'--%s' takes no value", o->name);
	if (!text)
		text = o->if_bare;
	if (o->argument && !text && take_next(p, o, &text))
		return -EINVAL;
	return set_option(p, o, text);
}

static int parse_letters(struct parser *p, const char *letters)
{
	for (; *letters; letters++) {
		const struct mt_option *o = p->command->options;
		const char *text = NULL;

		while (o->name && o->letter != *letters)
			o++;
		if (!o->name)
			return usage_error(p, "unknown option '-%c'", *letters);
		if (o->argument && letters[1])
			text = letters + 1;
		else if (o->argument && take_next(p, o, &text))
			return -EINVAL;
		if (set_option(p, o, text))
			return -EINVAL;
		if (o->argument)
			return 0;
	}
	return 0;
}

/* 0: parsed; 1: help was asked for; negative: a usage error that was reported. */
static int parse(struct parser *p)
{
	bool options_end = false;

	while (p->at < p->argc) {
		char *word = p->argv[p->at++];
		int code = 0;

		if (!options_end && !strcmp(word, "--")) {
			options_end = true;
			continue;
		}
		if (options_end || word[0] != '-' || !word[1]) {
			p->operand[p->operand_count++] = word;
			options_end |= p->command->stops_at_operand;
			continue;
		}
		if (!strcmp(word, "--help") || !strcmp(word, "-h"))
			return 1;
		code = word[1] == '-' ? parse_long(p, word + 2) : parse_letters(p, word + 1);
		if (code)
			return code;
	}
	return 0;
}

static int check_operands(const struct parser *p)
{
	if (p->operand_count < p->command->operands_min)
		return usage_error(p, "missing operand (%s)", p->command->operands);
	if (p->command->operands_max >= 0 && p->operand_count > p->command->operands_max)
		return usage_error(p, "unexpected operand '%s'",
				   p->operand[p->command->operands_max]);
	return 0;
}

int mt_command_run(const struct mt_command *c, int argc, char **argv)
{
	mt_auto(free) char **operand = mt_alloc_zero((size_t)argc + 1, sizeof(*operand));
	mt_auto(free) char *values = mt_alloc(c->options_bytes);
	struct parser p = {c, values, argc, 1, argv, operand, 0};
	int code;

	if (!operand || !values) {
		mt_complain("cannot allocate memory");
		return MT_EXIT_FAILED;
	}
	memcpy(values, c->defaults, c->options_bytes);
	code = parse(&p);
	if (code > 0) {
		mt_help_command(c, stdout);
		return MT_EXIT_OK;
	}
	if (code || check_operands(&p))
		return MT_EXIT_USAGE;
	return c->run(values, &(struct mt_operands){operand, p.operand_count});
}
