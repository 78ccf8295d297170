/* SPDX-License-Identifier: MIT */
/* Sentences in front of tables. */

#include "cli/sentences.h"

#include "base/buf.h"

void mt_sentences_done(struct mt_sentences *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++)
		free(s->text[i]);
	s->count = 0;
}

void mt_sentences_add(void *opaque, const char *sentence)
{
	struct mt_sentences *s = opaque;
	mt_auto(mt_buf) struct mt_buf text = {0};

	if (s->count == MT_ARRAY_LEN(s->text))
		return;
	mt_buf_printf(&text, "%s%s%s", s->prefix ? s->prefix : "", s->prefix ? ": " : "", sentence);
	s->text[s->count] = mt_buf_steal(&text, NULL);
	s->count += s->text[s->count] != NULL;
}

void mt_sentences_add_doubts(struct mt_sentences *s, const struct mt_smaps *of)
{
	mt_smaps_tell_doubts(of, mt_sentences_add, s);
	if (of->kind == MT_SMAPS_MAPS)
		mt_sentences_add(s, "this is a maps text: it tells addresses, not how much memory "
				    "is used");
	if (of->kind == MT_SMAPS_ROLLUP)
		mt_sentences_add(s, "this is a smaps_rollup text: sums, without mappings");
}

static void add_java(struct mt_sentences *s, const struct mt_subject *u)
{
	mt_auto(mt_buf) struct mt_buf text = {0};
	size_t views = mt_java_heap_views(&u->s);

	if (u->process.java.why.code)
		mt_buf_printf(&text, "Java objects stand among Unknown: %s",
			      u->process.java.why.text);
	else if (views > 1 && u->s.kind == MT_SMAPS_FULL)
		mt_buf_printf(&text,
			      "the Java heap is mapped %zu times (ZGC): Rss counts its pages each "
			      "time and calls them shared, Pss counts them once",
			      views);
	if (text.len)
		mt_sentences_add(s, mt_buf_text(&text));
}

void mt_sentences_add_subject(struct mt_sentences *s, const struct mt_subject *u)
{
	mt_auto(mt_buf) struct mt_buf text = {0};

	mt_sentences_add_doubts(s, &u->s);
	if (u->core) {
		mt_buf_printf(&text,
			      "this is a core file of process %d: it tells addresses and what it "
			      "holds of them, not how much memory was used, or what was shared",
			      (int)mt_image_facts(u->core)->pid);
		mt_sentences_add(s, mt_buf_text(&text));
		if (u->core_note.text[0])
			mt_sentences_add(s, u->core_note.text);
	}
	add_java(s, u);
}
