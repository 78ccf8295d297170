/* SPDX-License-Identifier: MIT */
/* Marking on made memory: what counts as a pointer, what cannot be read, and against a naive one.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "memory.h"

#define BASE ((uint64_t)MEMORY_BASE)
enum { ROOT_AT = 0x1000, BLOCK_AT = 0x8000, BLOCKS_MAX = 2048 };

struct scene {
	struct memory memory;
	struct mt_range block[BLOCKS_MAX], root[16];
	struct mt_mark_input in;
};

static struct scene *scene_new(void)
{
	struct scene *s = calloc(1, sizeof(*s));

	assert_non_null(s);
	s->in = (struct mt_mark_input){
		.block = s->block,
		.root = s->root,
		.flags = MT_MARK_INTERIOR,
		.read = memory_read,
		.context = &s->memory,
	};
	return s;
}

/* Offsets are from BASE. */
static void add_block(struct scene *s, uint64_t at, uint64_t bytes)
{
	s->block[s->in.blocks++] = (struct mt_range){BASE + at, BASE + at + bytes};
}

static void add_root(struct scene *s, uint64_t at, uint64_t bytes)
{
	s->root[s->in.roots++] = (struct mt_range){BASE + at, BASE + at + bytes};
}

static struct mt_mark run(struct scene *s)
{
	struct mt_mark m = {0};
	struct mt_err err = {0};

	assert_int_equal(mt_mark_run(&s->in, &m, &err), 0);
	assert_int_equal(m.blocks, s->in.blocks);
	return m;
}

/* The state of each block, as digits. */
static const char *states(struct scene *s)
{
	static char text[BLOCKS_MAX + 1];
	mt_auto(mt_mark) struct mt_mark m = run(s);

	for (size_t i = 0; i < m.blocks; i++)
		text[i] = (char)('0' + m.state[i]);
	text[m.blocks] = 0;
	return text;
}

static void C167_a_block_of_no_bytes_is_one_byte_long(void **state)
{
	static const struct mt_range block = {2, 3};
	uint64_t value = 2;
	struct mt_mark_input in = {
		.block = &block, .blocks = 1, .value = &value, .values = 1, .read = memory_read};
	mt_auto(mt_mark) struct mt_mark m = {0}, past = {0};
	struct memory none = {.is_hole = {0}};

	in.context = &none;
	assert_int_equal(mt_mark_run(&in, &m, NULL), 0);
	assert_int_equal(m.state[0], MT_MARK_REACHED);
	value = 3;
	assert_int_equal(mt_mark_run(&in, &past, NULL), 0);
	assert_int_equal(past.state[0], MT_MARK_LOST);
}

static void C168_pointers_beside_a_block_do_not_hold_it(void **state)
{
	struct scene *s = scene_new();

	add_block(s, BLOCK_AT, 16);
	add_root(s, ROOT_AT, 16);
	memory_put(&s->memory, BASE + ROOT_AT, BASE + BLOCK_AT - 8);
	memory_put(&s->memory, BASE + ROOT_AT + 8, BASE + BLOCK_AT + 16 + 7);
	assert_string_equal(states(s), "0");
	memory_put(&s->memory, BASE + ROOT_AT + 8, BASE + BLOCK_AT + 16);
	assert_string_equal(states(s), "0");
	memory_put(&s->memory, BASE + ROOT_AT + 8, BASE + BLOCK_AT + 15);
	assert_string_equal(states(s), "1");
	memory_put(&s->memory, BASE + ROOT_AT + 8, BASE + BLOCK_AT);
	assert_string_equal(states(s), "2");
	free(s);
}

static void C169_roots_that_are_cut_within_words_are_scanned(void **state)
{
	for (uint64_t head = 0; head < 8; head++)
		for (uint64_t tail = 0; tail < 8; tail++) {
			struct scene *s = scene_new();

			add_block(s, BLOCK_AT, 16);
			add_root(s, ROOT_AT + head, 24 - head - tail);
			memory_put(&s->memory, BASE + ROOT_AT + 8, BASE + BLOCK_AT);
			assert_string_equal(states(s), "2");
			free(s);
		}
}

static void C170_what_cannot_be_read_is_left_out_and_counted(void **state)
{
	struct scene *s = scene_new();

	/* held: the first on a page that cannot be read, the second from behind it */
	add_block(s, BLOCK_AT + 64, 64);
	add_block(s, BLOCK_AT + 128, 3 * MEMORY_PAGE);
	add_block(s, BLOCK_AT + 4 * MEMORY_PAGE, 64);
	add_root(s, ROOT_AT, 16);
	s->memory.is_hole[BLOCK_AT / MEMORY_PAGE] = true;
	memory_put(&s->memory, BASE + ROOT_AT, BASE + BLOCK_AT + 64);
	memory_put(&s->memory, BASE + ROOT_AT + 8, BASE + BLOCK_AT + 128);
	memory_put(&s->memory, BASE + BLOCK_AT + 2 * MEMORY_PAGE,
		   BASE + BLOCK_AT + 4 * MEMORY_PAGE);
	assert_string_equal(states(s), "222");
	{
		mt_auto(mt_mark) struct mt_mark m = run(s);

		assert_int_equal(m.skipped_bytes, MEMORY_PAGE - 64);
		assert_int_equal(m.block_bytes, 64 + 3 * MEMORY_PAGE + 64 - (MEMORY_PAGE - 64));
		assert_int_equal(m.root_bytes, 16);
	}
	free(s);
}

static void interior_pointers_count_only_when_wanted(void **state)
{
	struct scene *s = scene_new();

	/* root -> 0 by start; 0 -> 1 inside; 1 -> 2 by start; 0 -> 3 inside and root -> 3 */
	for (int i = 0; i < 4; i++)
		add_block(s, BLOCK_AT + 64 * i, 48);
	add_root(s, ROOT_AT, 16);
	memory_put(&s->memory, BASE + ROOT_AT, BASE + BLOCK_AT);
	memory_put(&s->memory, BASE + ROOT_AT + 8, BASE + BLOCK_AT + 64 * 3);
	memory_put(&s->memory, BASE + BLOCK_AT, BASE + BLOCK_AT + 64 + 8);
	memory_put(&s->memory, BASE + BLOCK_AT + 8, BASE + BLOCK_AT + 64 * 3 + 8);
	memory_put(&s->memory, BASE + BLOCK_AT + 64, BASE + BLOCK_AT + 64 * 2);
	assert_string_equal(states(s), "2112");
	s->in.flags = 0;
	assert_string_equal(states(s), "2002");
	free(s);
}

static void tagged_pointers_count_only_when_wanted(void **state)
{
	struct scene *s = scene_new();

	add_block(s, BLOCK_AT, 48);
	add_block(s, BLOCK_AT + 64, 48);
	add_root(s, ROOT_AT, 16);
	s->in.flags = 0;
	memory_put(&s->memory, BASE + ROOT_AT, (BASE + BLOCK_AT) | 5);
	memory_put(&s->memory, BASE + ROOT_AT + 8, (BASE + BLOCK_AT + 64) | 0xb4ull << 56);
	assert_string_equal(states(s), "00");
	s->in.flags = MT_MARK_LOW_BITS;
	assert_string_equal(states(s), "20");
	s->in.flags = MT_MARK_TOP_BYTE;
	assert_string_equal(states(s), "02");
	s->in.flags = MT_MARK_TOP_BYTE | MT_MARK_LOW_BITS;
	assert_string_equal(states(s), "22");
	free(s);
}

static void unaligned_pointers_count_only_when_wanted(void **state)
{
	for (uint64_t off = 0; off < 8; off++) {
		struct scene *s = scene_new();

		add_block(s, BLOCK_AT, 48);
		add_root(s, ROOT_AT, 16);
		memory_put(&s->memory, BASE + ROOT_AT + off, BASE + BLOCK_AT);
		assert_string_equal(states(s), off ? "0" : "2");
		s->in.flags |= MT_MARK_UNALIGNED;
		assert_string_equal(states(s), "2");
		free(s);
	}
}

static void in_code_pointers_count_at_any_address(void **state)
{
	for (uint64_t off = 0; off < 8; off++) {
		struct scene *s = scene_new();

		add_block(s, BLOCK_AT, 48);
		add_block(s, BLOCK_AT + 64, 48);
		add_root(s, ROOT_AT, 16);
		s->in.code = s->root;
		s->in.codes = 1;
		s->in.roots = 0;
		memory_put(&s->memory, BASE + ROOT_AT + off, BASE + BLOCK_AT);
		memory_put(&s->memory, BASE + BLOCK_AT + off, BASE + BLOCK_AT + 64);
		assert_string_equal(states(s), off ? "20" : "22");
		free(s);
	}
}

static void a_block_does_not_hold_itself(void **state)
{
	struct scene *s = scene_new();

	add_block(s, BLOCK_AT, 48);
	memory_put(&s->memory, BASE + BLOCK_AT, BASE + BLOCK_AT);
	assert_string_equal(states(s), "0");
	free(s);
}

static void values_and_held_blocks_are_roots(void **state)
{
	struct scene *s = scene_new();
	uint64_t value[2] = {BASE + BLOCK_AT, BASE + BLOCK_AT + 64 + 1};
	uint32_t held = 3;

	for (int i = 0; i < 5; i++)
		add_block(s, BLOCK_AT + 64 * i, 48);
	memory_put(&s->memory, BASE + BLOCK_AT + 64 * 3, BASE + BLOCK_AT + 64 * 4);
	s->in.value = value;
	s->in.values = 2;
	s->in.held = &held;
	s->in.held_count = 1;
	assert_string_equal(states(s), "21022");
	free(s);
}

static void more_can_be_held_later(void **state)
{
	struct scene *s = scene_new();
	const uint32_t held = 0;

	/* 0 -> 1 by start, 1 -> 2 inside; the root -> 1 inside */
	for (int i = 0; i < 3; i++)
		add_block(s, BLOCK_AT + 64 * i, 48);
	add_root(s, ROOT_AT, 8);
	memory_put(&s->memory, BASE + ROOT_AT, BASE + BLOCK_AT + 64 + 1);
	memory_put(&s->memory, BASE + BLOCK_AT, BASE + BLOCK_AT + 64);
	memory_put(&s->memory, BASE + BLOCK_AT + 64, BASE + BLOCK_AT + 128 + 8);
	{
		mt_auto(mt_mark) struct mt_mark m = run(s);

		assert_memory_equal(m.state, "\0\1\1", 3);
		mt_mark_hold(&m, &held, 1);
		assert_memory_equal(m.state, "\2\2\1", 3);
	}
	free(s);
}

static void long_chains_need_no_depth(void **state)
{
	enum { LINKS = 2000 };
	struct scene *s = scene_new();

	for (uint64_t i = 0; i < LINKS; i++)
		add_block(s, BLOCK_AT + 32 * i, 24);
	for (uint64_t i = 1; i < LINKS; i++)
		memory_put(&s->memory, BASE + BLOCK_AT + 32 * (i - 1), BASE + BLOCK_AT + 32 * i);
	add_root(s, ROOT_AT, 8);
	memory_put(&s->memory, BASE + ROOT_AT, BASE + BLOCK_AT);
	{
		mt_auto(mt_mark) struct mt_mark m = run(s);

		for (size_t i = 0; i < LINKS; i++)
			assert_int_equal(m.state[i], MT_MARK_REACHED);
		assert_int_equal(m.pointers, LINKS - 1);
	}
	free(s);
}

static void small_blocks_are_read_together(void **state)
{
	struct scene *s = scene_new();

	for (uint64_t i = 0; i < 1000; i++)
		add_block(s, BLOCK_AT + 32 * i, 24);
	states(s);
	assert_true(s->memory.longest_read > 16000);
	free(s);
}

static void blocks_must_be_in_order(void **state)
{
	static const struct mt_range wrong[][2] = {
		{{10, 20}, {19, 30}}, {{10, 20}, {5, 8}}, {{10, 10}, {12, 13}}};
	struct mt_err err = {0};

	for (int i = 0; i < 3; i++) {
		struct mt_mark_input in = {.block = wrong[i], .blocks = 2, .read = memory_read};
		struct mt_mark m;

		assert_true(mt_mark_run(&in, &m, &err) < 0);
		assert_string_equal(err.text, "the list of live blocks is not in order");
	}
}

/* ---- a large block: several pieces ---- */

enum { BIG_BYTES = 13 << 20, SMALL_BYTES = 64 };

/* Of the big block all words are 0 but two, and the small one lies behind it. */
static size_t read_big(void *context, uint64_t address, void *to, size_t bytes)
{
	const uint64_t *at = context; /* of both pointers */

	memset(to, 0, bytes);
	for (int i = 0; i < 2; i++)
		for (uint64_t k = 0; k < 8; k++) {
			uint64_t byte = BASE + at[i] + k;

			if (byte >= address && byte < address + bytes)
				((uint8_t *)to)[byte - address] =
					(uint8_t)((BASE + BIG_BYTES + SMALL_BYTES * (uint64_t)i) >>
						  8 * k);
		}
	return bytes;
}

static void check_big(uint64_t first, uint64_t second, uint32_t flags, const char *wanted,
		      uint64_t shift)
{
	struct mt_range block[3] = {
		{BASE + shift, BASE + BIG_BYTES},
		{BASE + BIG_BYTES, BASE + BIG_BYTES + SMALL_BYTES},
		{BASE + BIG_BYTES + SMALL_BYTES, BASE + BIG_BYTES + 2 * SMALL_BYTES}};
	uint64_t at[2] = {first, second};
	const uint32_t held = 0;
	struct mt_mark_input in = {.block = block,
				   .blocks = 3,
				   .held = &held,
				   .held_count = 1,
				   .flags = flags,
				   .read = read_big,
				   .context = at};
	mt_auto(mt_mark) struct mt_mark m = {0};

	assert_int_equal(mt_mark_run(&in, &m, NULL), 0);
	for (int i = 0; i < 3; i++)
		assert_int_equal(m.state[i], wanted[i] - '0');
}

static void words_at_the_seams_of_large_blocks_are_found(void **state)
{
	enum { SEAM = 4 << 20, WINDOW = 1 << 20 };

	for (uint64_t i = 0; i < 16; i += 8) {
		check_big(SEAM - i, 2 * SEAM + i, 0, "222", 0);
		check_big(WINDOW - i, BIG_BYTES - 8, 0, "222", 0);
		check_big(SEAM - i, 3 * SEAM + i, 0, "222", 4);
	}
	for (uint64_t i = 1; i < 12; i++) {
		check_big(SEAM - i, 2 * SEAM + i, MT_MARK_UNALIGNED, "222", 0);
		check_big(WINDOW - i, 2 * WINDOW + i, MT_MARK_UNALIGNED, "222", 3);
	}
	check_big(SEAM - 4, SEAM, 0, "202", 0);
}

/* ---- against a naive marker ---- */

static int naive_target(const struct scene *s, uint64_t word, bool *ret_inside)
{
	if (s->in.flags & MT_MARK_TOP_BYTE)
		word = word << 8 >> 8;
	for (size_t i = 0; i < s->in.blocks; i++) {
		uint64_t start = s->block[i].start;

		if (word < start || word >= s->block[i].end)
			continue;
		*ret_inside = word != start;
		if (s->in.flags & MT_MARK_LOW_BITS && (word & ~7ull) == start)
			*ret_inside = false;
		return *ret_inside && !(s->in.flags & MT_MARK_INTERIOR) ? -1 : (int)i;
	}
	return -1;
}

/* Raises what the words of a range point to. Whether anything changed. */
static bool naive_scan(const struct scene *s, const struct mt_range *r, int level, int from,
		       uint8_t *mark)
{
	uint64_t step = s->in.flags & MT_MARK_UNALIGNED ? 1 : 8;
	bool has_changed = false, is_inside = false;

	for (uint64_t at = (r->start + step - 1) / step * step; at + 8 <= r->end; at += step) {
		uint64_t first = (at - BASE) / MEMORY_PAGE, last = (at + 7 - BASE) / MEMORY_PAGE;
		int target, reached;

		if (s->memory.is_hole[first] || s->memory.is_hole[last])
			continue;
		target = naive_target(s, memory_get(&s->memory, at), &is_inside);
		reached = is_inside && level == MT_MARK_REACHED ? MT_MARK_INSIDE : level;
		if (target < 0 || target == from || mark[target] >= reached)
			continue;
		mark[target] = (uint8_t)reached;
		has_changed = true;
	}
	return has_changed;
}

static void naive_mark(const struct scene *s, uint8_t *mark)
{
	bool has_changed = true;

	for (size_t i = 0; i < s->in.roots; i++)
		naive_scan(s, &s->root[i], MT_MARK_REACHED, -1, mark);
	while (has_changed) {
		has_changed = false;
		for (size_t i = 0; i < s->in.blocks; i++)
			if (mark[i])
				has_changed |= naive_scan(s, &s->block[i], mark[i], (int)i, mark);
	}
}

static void make_random(struct scene *s, uint64_t *seed)
{
	uint64_t at = BLOCK_AT + memory_random(seed) % 64;

	add_root(s, ROOT_AT + memory_random(seed) % 9, 64 + memory_random(seed) % 64);
	add_root(s, ROOT_AT + 0x2000, 40);
	while (s->in.blocks < 200 && at < MEMORY_BYTES - 16384) {
		uint64_t bytes = memory_random(seed) % 4 ? 1 + memory_random(seed) % 80
							 : 1 + memory_random(seed) % 6000;

		add_block(s, at, bytes);
		at += bytes + (memory_random(seed) % 3 ? 16 : memory_random(seed) % 5000);
		if (memory_random(seed) % 2)
			at = (at + 15) / 16 * 16;
	}
	for (uint64_t n = 150 + memory_random(seed) % 500; n; n--) {
		const struct mt_range *to = &s->block[memory_random(seed) % s->in.blocks];
		bool is_root = memory_random(seed) % 10 == 0;
		uint64_t where = is_root ? ROOT_AT : BLOCK_AT, word = to->start;

		where = BASE + where + memory_random(seed) % (is_root ? 140 : at + 64 - where);
		if (memory_random(seed) % 4)
			where = where / 8 * 8;
		if (memory_random(seed) % 3 == 0)
			word += memory_random(seed) % (to->end - to->start + 4);
		if (memory_random(seed) % 5 == 0)
			word |= 0xabull << 56;
		memory_put(&s->memory, where, word);
	}
	for (int n = 0; n < 3; n++)
		s->memory.is_hole[memory_random(seed) % MEMORY_PAGES] = true;
	s->in.flags = (uint32_t)memory_random(seed) & 15;
	s->in.threads = 1 + (uint32_t)memory_random(seed) % 3;
}

static void random_memory_is_marked_as_by_a_naive_marker(void **state)
{
	uint64_t seed = 42, reached = 0, inside = 0, lost = 0;

	for (int round = 0; round < 300; round++) {
		struct scene *s = scene_new();
		uint8_t naive[BLOCKS_MAX] = {0};

		make_random(s, &seed);
		naive_mark(s, naive);
		{
			mt_auto(mt_mark) struct mt_mark m = run(s);

			for (size_t i = 0; i < m.blocks; i++) {
				if (m.state[i] != naive[i])
					fail_msg("round %d, flags %u, block %zu: %d, naive: %d",
						 round, s->in.flags, i, m.state[i], naive[i]);
				reached += naive[i] == MT_MARK_REACHED;
				inside += naive[i] == MT_MARK_INSIDE;
				lost += naive[i] == MT_MARK_LOST;
			}
		}
		free(s);
	}
	/* all three came about often enough to mean something */
	assert_true(reached > 2000 && inside > 1000 && lost > 2000);
}

static void every_allocation_may_fail(void **state)
{
	struct scene *s = scene_new();
	uint64_t seed = 7;
	size_t needed;

	make_random(s, &seed);
	s->in.threads = 1;
	mt_alloc_fail_from_for_test(0);
	states(s);
	needed = mt_alloc_fail_from_for_test(0);
	assert_true(needed > 5);
	for (size_t n = 1; n <= needed; n++) {
		struct mt_mark m = {0};
		struct mt_err err = {0};
		int code;

		mt_alloc_fail_from_for_test(n);
		code = mt_mark_run(&s->in, &m, &err);
		mt_alloc_fail_from_for_test(0);
		if (!code)
			mt_mark_done(&m); /* a list kept its spare room */
		else
			assert_string_equal(err.text, "cannot allocate memory");
	}
	free(s);
}

int main(void)
{
	static const struct CMUnitTest tests[] = {
		cmocka_unit_test(C167_a_block_of_no_bytes_is_one_byte_long),
		cmocka_unit_test(C168_pointers_beside_a_block_do_not_hold_it),
		cmocka_unit_test(C169_roots_that_are_cut_within_words_are_scanned),
		cmocka_unit_test(C170_what_cannot_be_read_is_left_out_and_counted),
		cmocka_unit_test(interior_pointers_count_only_when_wanted),
		cmocka_unit_test(tagged_pointers_count_only_when_wanted),
		cmocka_unit_test(unaligned_pointers_count_only_when_wanted),
		cmocka_unit_test(in_code_pointers_count_at_any_address),
		cmocka_unit_test(a_block_does_not_hold_itself),
		cmocka_unit_test(values_and_held_blocks_are_roots),
		cmocka_unit_test(more_can_be_held_later),
		cmocka_unit_test(long_chains_need_no_depth),
		cmocka_unit_test(small_blocks_are_read_together),
		cmocka_unit_test(blocks_must_be_in_order),
		cmocka_unit_test(words_at_the_seams_of_large_blocks_are_found),
		cmocka_unit_test(random_memory_is_marked_as_by_a_naive_marker),
		cmocka_unit_test(every_allocation_may_fail),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
