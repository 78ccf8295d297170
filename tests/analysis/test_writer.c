/* SPDX-License-Identifier: MIT */
/* What changed bytes look like. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "analysis/writer.h"

enum { BLOCK = 0x20000000, SIZE = 40, WINDOW = BLOCK - 64, REAR = BLOCK + SIZE };

/* A block full of 0x90, 0xbb behind it, and `bytes` written there at `first`. */
static struct mt_profile_damage damage_at(uint64_t first, const void *bytes, size_t len)
{
	struct mt_profile_damage d = {
		.first = first,
		.last = first + len - 1,
		.count = len,
		.expected = 0xbb,
		.window_start = WINDOW,
		.window_bytes = MT_PROFILE_WINDOW,
		.before = {.start = BLOCK - 0x2000, .bytes = 16},
	};
	memset(d.window, 0x90, sizeof(d.window));
	memset(d.window + 64 + SIZE, 0xbb, sizeof(d.window) - 64 - SIZE);
	memcpy(d.window + (first - WINDOW), bytes, len);
	return d;
}

static struct mt_writer guess(const struct mt_profile_damage *d)
{
	return mt_writer_guess(&(struct mt_profile_error){
		.block = BLOCK, .block_bytes = SIZE, .address = d->first, .damage = d});
}

/* The text of the bytes that stays in `d` is compared. */
static void assert_text(const struct mt_profile_damage *d, const char *text, bool is_end)
{
	struct mt_writer w = guess(d);
	assert_int_equal(w.kind, MT_WRITER_TEXT);
	assert_int_equal(w.is_end, is_end);
	assert_int_equal(w.text_bytes, strlen(text));
	assert_memory_equal(w.text, text, w.text_bytes);
}

static void text_is_shown_from_its_beginning_in_the_block(void **state)
{
	struct mt_profile_damage d = damage_at(REAR, "hello", 6);
	assert_text(&d, "hello", false);
	memcpy(d.window + 64 + SIZE - 4, "oh, ", 4);
	assert_text(&d, "oh, hello", false);
	d = damage_at(REAR, "!", 1);
	assert_int_equal(guess(&d).kind, MT_WRITER_INTEGER);
	memcpy(d.window + 64 + SIZE - 4, "oh, ", 4);
	assert_text(&d, "oh, !", false);
}

static void one_zero_behind_a_text_is_its_end(void **state)
{
	struct mt_profile_damage d = damage_at(REAR, "", 1);
	struct mt_writer w = guess(&d);
	assert_int_equal(w.kind, MT_WRITER_ZEROS);
	assert_int_equal(w.bytes, 1);
	memcpy(d.window + 64 + SIZE - 8, "password", 8);
	assert_text(&d, "password", true);
}

static void the_same_byte_is_a_fill(void **state)
{
	struct mt_profile_damage d = damage_at(REAR, "AAAAAAAA", 8);
	struct mt_writer w = guess(&d);
	assert_int_equal(w.kind, MT_WRITER_FILL);
	assert_int_equal(w.word, 'A');
	assert_int_equal(w.bytes, 8);
	d = damage_at(REAR, "\0\0\0\0\0\0\0", 7);
	w = guess(&d);
	assert_int_equal(w.kind, MT_WRITER_ZEROS);
	assert_int_equal(w.bytes, 7);
	d.last = d.first + 999;
	memset(d.window + 64 + SIZE, 0, sizeof(d.window) - 64 - SIZE);
	assert_int_equal(guess(&d).bytes, 1000);
}

static struct mt_writer guess_word(uint64_t word, uint32_t node)
{
	struct mt_profile_damage d = damage_at(REAR, &word, sizeof(word));
	d.word_node = node;
	return guess(&d);
}

static void pointers_are_told_by_where_they_point(void **state)
{
	struct mt_writer w = guess_word(0x401234, 7);
	assert_int_equal(w.kind, MT_WRITER_POINTER);
	assert_int_equal(w.target, MT_TARGET_MODULE);
	assert_int_equal(w.word, 0x401234);
	assert_int_equal(w.node, 7);
	assert_int_equal(guess_word(BLOCK + SIZE, 0).target, MT_TARGET_BLOCK);
	assert_int_equal(guess_word(BLOCK - 0x2000 + 5, 0).target, MT_TARGET_BEFORE);
	assert_int_equal(guess_word(BLOCK + 0x100000, 0).target, MT_TARGET_HEAP);
	assert_int_equal(guess_word(0x7ffc12345678, 0).target, MT_TARGET_STACK);
	assert_int_equal(guess_word(0xffffd2345678, 0).target, MT_TARGET_STACK);
	assert_int_equal(guess_word(0x7f1012345678, 0).kind, MT_WRITER_UNKNOWN);
	assert_int_equal(guess_word(0x57ffc12345678, 0).kind, MT_WRITER_UNKNOWN);
}

static void numbers_are_told_by_their_size(void **state)
{
	static const struct {
		uint64_t word;
		size_t bytes;
		int64_t integer;
	} cases[] = {
		{0x91, 1, -0x6f},    {0x1234, 2, 0x1234},   {7, 4, 7},
		{0xffffffff, 4, -1}, {1000000, 8, 1000000}, {UINT64_MAX - 1, 8, -2},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct mt_profile_damage d = damage_at(REAR, &cases[i].word, cases[i].bytes);
		struct mt_writer w = guess(&d);
		if (cases[i].word == 0xffffffff) {
			assert_int_equal(w.kind, MT_WRITER_FILL);
			continue;
		}
		assert_int_equal(w.kind, MT_WRITER_INTEGER);
		assert_int_equal(w.bytes, cases[i].bytes);
		assert_int_equal(w.integer, cases[i].integer);
	}
}

static void an_array_of_integers_is_told_by_its_first(void **state)
{
	static const int32_t numbers[] = {5, 6, 7};
	struct mt_profile_damage d = damage_at(REAR, numbers, sizeof(numbers));
	struct mt_writer w = guess(&d);
	assert_int_equal(w.kind, MT_WRITER_INTEGER);
	assert_int_equal(w.bytes, 4);
	assert_int_equal(w.integer, 5);
}

static void reals_are_told_when_they_are_plausible(void **state)
{
	double d = -2.5;
	float f = 1024.5F;
	struct mt_profile_damage damage = damage_at(REAR, &d, sizeof(d));
	struct mt_writer w = guess(&damage);
	assert_int_equal(w.kind, MT_WRITER_DOUBLE);
	assert_true(w.real == -2.5);
	damage = damage_at(REAR, &f, sizeof(f));
	w = guess(&damage);
	assert_int_equal(w.kind, MT_WRITER_FLOAT);
	assert_true(w.real == 1024.5);
	/* not aligned as a double is */
	damage = damage_at(REAR + 1, &d, sizeof(d));
	assert_int_equal(guess(&damage).kind, MT_WRITER_UNKNOWN);
}

static void what_is_not_seen_is_not_guessed(void **state)
{
	struct mt_profile_damage d = damage_at(REAR, "hello", 6);
	assert_int_equal(mt_writer_guess(&(struct mt_profile_error){0}).kind, MT_WRITER_UNKNOWN);
	d.window_bytes = 64 + SIZE;
	assert_int_equal(guess(&d).kind, MT_WRITER_UNKNOWN);
	d.window_bytes++;
	assert_int_equal(guess(&d).kind, MT_WRITER_INTEGER);
	d.window_start = REAR + 1;
	assert_int_equal(guess(&d).kind, MT_WRITER_UNKNOWN);
	d = damage_at(REAR, "\x85\x97\xf3", 3);
	assert_int_equal(guess(&d).kind, MT_WRITER_UNKNOWN);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(text_is_shown_from_its_beginning_in_the_block),
		cmocka_unit_test(one_zero_behind_a_text_is_its_end),
		cmocka_unit_test(the_same_byte_is_a_fill),
		cmocka_unit_test(pointers_are_told_by_where_they_point),
		cmocka_unit_test(numbers_are_told_by_their_size),
		cmocka_unit_test(an_array_of_integers_is_told_by_its_first),
		cmocka_unit_test(reals_are_told_when_they_are_plausible),
		cmocka_unit_test(what_is_not_seen_is_not_guessed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
