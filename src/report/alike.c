/* SPDX-License-Identifier: MIT */
/* Sentences of many processes, folded. Compared with each line so far: there are few kinds. */
#include "report/alike.h"

#include "base/alloc.h"
#include "base/buf.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* What follows "process PID: ", or NULL. */
static const char *behind_process(const char *sentence)
{
	static const char begin[] = "process ";
	const char *s = sentence + sizeof(begin) - 1;

	if (strncmp(sentence, begin, sizeof(begin) - 1) || !is_digit(*s))
		return NULL;
	while (is_digit(*s))
		s++;
	return strncmp(s, ": ", 2) ? NULL : s + 2;
}

/* Each number stands for any other. */
static bool is_same_but_for_numbers(const char *a, const char *b)
{
	while (*a && *b) {
		if (is_digit(*a) != is_digit(*b) || (!is_digit(*a) && *a != *b))
			return false;
		if (!is_digit(*a)) {
			a++;
			b++;
			continue;
		}
		while (is_digit(*a))
			a++;
		while (is_digit(*b))
			b++;
	}
	return *a == *b;
}

static struct mt_alike_line *find(const struct mt_alike *a, const char *text)
{
	for (size_t i = 0; i < a->count; i++) {
		const char *known = behind_process(a->line[i].first);

		if (known && is_same_but_for_numbers(known, text))
			return &a->line[i];
	}
	return NULL;
}

void mt_alike_done(struct mt_alike *a)
{
	for (size_t i = 0; i < a->count; i++)
		free(a->line[i].first);
	free(a->line);
	*a = (struct mt_alike){0};
}

void mt_alike_add(void *opaque, const char *sentence)
{
	struct mt_alike *a = opaque;
	const char *text = behind_process(sentence);
	struct mt_alike_line *line = text ? find(a, text) : NULL;

	if (line) {
		line->more++;
		line->has_other_numbers |= strcmp(behind_process(line->first), text) != 0;
		return;
	}
	line = mt_alloc_grow(a->line, &a->capacity, a->count + 1, sizeof(*line));
	if (line) {
		a->line = line;
		line[a->count] = (struct mt_alike_line){.first = strdup(sentence)};
		a->failed |= !line[a->count].first;
		a->count += line[a->count].first != NULL;
	}
	a->failed |= !line;
}

int mt_alike_each(const struct mt_alike *a, void (*emit)(void *context, const char *sentence),
		  void *context)
{
	mt_auto(mt_buf) struct mt_buf text = {0};

	for (size_t i = 0; i < a->count; i++) {
		const struct mt_alike_line *l = &a->line[i];

		mt_buf_truncate(&text, 0);
		mt_buf_adds(&text, l->first);
		if (l->more)
			mt_buf_printf(&text, " (and %" PRIu64 " more%s%s; --json lists all)",
				      l->more, l->more == 1 ? " process" : " processes",
				      l->has_other_numbers ? ", with numbers of their own" : "");
		emit(context, mt_buf_text(&text));
	}
	return a->failed || text.failed ? -ENOMEM : 0;
}
