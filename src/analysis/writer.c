/* SPDX-License-Identifier: MIT */
/*
 * Guesses in the order in which they are worth most: a text says itself what it is, a pointer is
 * hardly ever one by chance, a small number often is.
 */
#include "analysis/writer.h"

#include "core/cc.h"

#include <math.h>
#include <string.h>

enum {
	FILL_LEAST = 4,
	TEXT_LEAST = 4,
	INTEGER_MOST = 1000000,
	LEAST_ADDRESS = 4096,
	NEAR_BYTES = 64 << 20, /* as far as an arena of a thread reaches */
};
/* The changed bytes as far as they can be seen. */
struct run {
	const struct mt_profile_damage *d;
	const uint8_t *byte;
	uint32_t count;
	uint32_t at; /* byte[0] in the window */
	bool is_cut; /* the window ends before the run does */
};

static bool find_run(const struct mt_profile_damage *d, struct run *ret_run)
{
	uint64_t at;

	if (!d || !d->first || d->first < d->window_start)
		return false;
	at = d->first - d->window_start;
	if (at >= d->window_bytes)
		return false;
	*ret_run = (struct run){
		.d = d,
		.byte = d->window + at,
		.count = (uint32_t)MT_MIN(d->last - d->first, d->window_bytes - at - 1) + 1,
		.at = (uint32_t)at,
		.is_cut = d->last - d->first >= d->window_bytes - at,
	};
	return true;
}

static bool is_printable(uint8_t c)
{
	return (c >= ' ' && c < 0x7f) || c == '\n' || c == '\t' || c == '\r';
}

/* Printable bytes in front of the run: a text that went over the end began in the block. */
static uint32_t text_before(const struct run *run)
{
	uint32_t count = 0;

	while (count < run->at && is_printable(run->d->window[run->at - 1 - count]))
		count++;
	return count;
}

static bool guess_same(const struct run *run, struct mt_writer *w)
{
	uint8_t first = run->byte[0];

	for (uint32_t i = 1; i < run->count; i++)
		if (run->byte[i] != first)
			return false;
	if (first && run->count < FILL_LEAST)
		return false;
	w->kind = first ? MT_WRITER_FILL : MT_WRITER_ZEROS;
	w->word = first;
	w->bytes = run->is_cut ? run->d->last - run->d->first + 1 : run->count;
	return true;
}

static bool guess_text(const struct run *run, struct mt_writer *w)
{
	uint32_t before = text_before(run), count = 0;
	bool is_ended;

	while (count < run->count && is_printable(run->byte[count]))
		count++;
	is_ended = count == run->count || !run->byte[count];
	/* two or three letters are a text only when nothing else changed */
	bool is_all = count >= 2 && count + 1 >= run->count;
	if (!(count >= TEXT_LEAST || (is_ended && count && before + count >= TEXT_LEAST) ||
	      (is_ended && is_all)))
		return false;
	w->kind = MT_WRITER_TEXT;
	w->text = (const char *)run->byte - before;
	w->text_bytes = before + count;
	return true;
}

/* One zero byte behind a text: the end of a string for which there was no room. */
static bool guess_text_end(const struct run *run, struct mt_writer *w)
{
	uint32_t before = text_before(run);

	if (run->count != 1 || run->byte[0] || before < TEXT_LEAST)
		return false;
	w->kind = MT_WRITER_TEXT;
	w->is_end = true;
	w->text = (const char *)run->byte - before;
	w->text_bytes = before;
	return true;
}

static bool is_inside(uint64_t word, uint64_t start, uint64_t bytes)
{
	return start && word >= start && word - start <= bytes;
}

/* Where Linux puts the first stack: below the end of 47 bits of addresses, or of 48. */
static bool is_stack(uint64_t word)
{
	return word >> 36 == 0x7ff || word >> 36 == 0xfff;
}

static bool find_target(const struct mt_profile_error *e, uint64_t word,
			enum mt_writer_target *ret_target)
{
	const struct mt_profile_damage *d = e->damage;

	if (d->word_node)
		*ret_target = MT_TARGET_MODULE;
	else if (is_inside(word, e->block, e->block_bytes))
		*ret_target = MT_TARGET_BLOCK;
	else if (is_inside(word, d->before.start, d->before.bytes))
		*ret_target = MT_TARGET_BEFORE;
	else if (is_inside(word, d->after.start, d->after.bytes))
		*ret_target = MT_TARGET_AFTER;
	else if (e->block && word + NEAR_BYTES - e->block < 2 * NEAR_BYTES)
		*ret_target = MT_TARGET_HEAP;
	else if (is_stack(word))
		*ret_target = MT_TARGET_STACK;
	else
		return false;
	return true;
}

/* The aligned word in which the first changed byte lies. */
static bool guess_pointer(const struct mt_profile_error *e, const struct run *run,
			  struct mt_writer *w)
{
	uint64_t word, at = (run->d->first & ~(uint64_t)7) - run->d->window_start;

	if (at > run->d->window_bytes || run->d->window_bytes - at < sizeof(word))
		return false;
	memcpy(&word, run->d->window + at, sizeof(word));
	if (word < LEAST_ADDRESS || !find_target(e, word, &w->target))
		return false;
	w->kind = MT_WRITER_POINTER;
	w->word = word;
	w->node = run->d->word_node;
	return true;
}

static int64_t integer_at(const uint8_t *byte, uint32_t bytes)
{
	int8_t b;
	int16_t h;
	int32_t i;
	int64_t l;

	switch (bytes) {
	case 1:
		return memcpy(&b, byte, sizeof(b)), b;
	case 2:
		return memcpy(&h, byte, sizeof(h)), h;
	case 4:
		return memcpy(&i, byte, sizeof(i)), i;
	default:
		return memcpy(&l, byte, sizeof(l)), l;
	}
}

/* Numbers lie aligned to their size, and all their bytes changed. */
static bool is_aligned(const struct run *run, uint32_t bytes)
{
	return run->d->first % bytes == 0 && run->count % bytes == 0;
}

/* Whether all numbers of the run are small. */
static bool are_small(const struct run *run, uint32_t bytes)
{
	for (uint32_t at = 0; at < run->count; at += bytes) {
		int64_t v = integer_at(run->byte + at, bytes);

		if (v > INTEGER_MOST || v < -INTEGER_MOST)
			return false;
	}
	return true;
}

static bool guess_integer(const struct run *run, struct mt_writer *w)
{
	static const uint8_t widths[] = {8, 4, 2, 1};

	for (size_t i = 0; i < MT_ARRAY_LEN(widths); i++) {
		uint32_t bytes = widths[i];

		if (!is_aligned(run, bytes) || (bytes < 4 && run->count != bytes) ||
		    !are_small(run, bytes))
			continue;
		w->kind = MT_WRITER_INTEGER;
		w->bytes = bytes;
		w->integer = integer_at(run->byte, bytes);
		return true;
	}
	return false;
}

static bool guess_real(const struct run *run, struct mt_writer *w)
{
	double d = 0;
	float f = 0;

	if (is_aligned(run, sizeof(d)))
		memcpy(&d, run->byte, sizeof(d));
	if (fabs(d) >= 1e-6 && fabs(d) <= 1e12) {
		w->kind = MT_WRITER_DOUBLE;
		w->real = d;
		return true;
	}
	if (is_aligned(run, sizeof(f)))
		memcpy(&f, run->byte, sizeof(f));
	if (fabsf(f) < 1e-4F || fabsf(f) > 1e9F || isnan(f))
		return false;
	w->kind = MT_WRITER_FLOAT;
	w->real = (double)f;
	return true;
}

struct mt_writer mt_writer_guess(const struct mt_profile_error *e)
{
	struct mt_writer w = {.kind = MT_WRITER_UNKNOWN};
	struct run run;

	if (find_run(e->damage, &run))
		(void)(guess_text_end(&run, &w) || guess_same(&run, &w) || guess_text(&run, &w) ||
		       guess_pointer(e, &run, &w) || guess_integer(&run, &w) ||
		       guess_real(&run, &w));
	return w;
}
