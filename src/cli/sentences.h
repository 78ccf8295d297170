/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_SENTENCES_H
#define MT_CLI_SENTENCES_H

/* What a reader must know before trusting a number, gathered. */

#include "cli/subject.h"

struct mt_sentences {
	char *text[16]; /* owned */
	size_t count;
	const char *prefix; /* before the next ones, with a colon; NULL: none. Borrowed */
};

void mt_sentences_done(struct mt_sentences *s);
MT_AUTO_DEFINE_INPLACE(mt_sentences, struct mt_sentences, mt_sentences_done)

/* Adds a copy; what does not fit is left out. opaque: a struct mt_sentences. */
void mt_sentences_add(void *opaque, const char *sentence);

/* What a text of smaps, maps or smaps_rollup lacks. */
void mt_sentences_add_doubts(struct mt_sentences *s, const struct mt_smaps *of);

/* The same, what of a core file is missing, and how figures of Java objects are to be read. */
void mt_sentences_add_subject(struct mt_sentences *s, const struct mt_subject *u);

#endif
