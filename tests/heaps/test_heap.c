/* SPDX-License-Identifier: MIT */
/* Reading heaps from kept images: what is found, what is refused, damage, and lack of memory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>

#include "fake_image.h"

#include <cmocka.h>

#include "base/alloc.h"
#include "heap/heap.h"
#include "heap/pinned.h"

struct kept {
	uint8_t *data;
	size_t bytes;
};

static struct kept load(const char *name)
{
	struct kept k = {.data = malloc(1 << 20)};
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", getenv("HEAP_IMAGES"), name);
	f = fopen(path, "rb");
	assert_non_null(f);
	assert_non_null(k.data);
	k.bytes = fread(k.data, 1, 1 << 20, f);
	fclose(f);
	return k;
}

static int read_heap(const struct kept *k, struct mt_heap *h, struct mt_err *err)
{
	struct mt_image im;

	assert_int_equal(fake_image_open(&im, k->data, k->bytes), 0);
	*err = (struct mt_err){0};
	*h = (struct mt_heap){0};
	return mt_heap_read(&im, h, err);
}

/* The bytes in the file that are those of an address; NULL: they are not kept. */
static uint8_t *bytes_at(const struct kept *k, uint64_t address)
{
	struct mt_image im;
	const struct mt_mapping *m;

	assert_int_equal(fake_image_open(&im, k->data, k->bytes), 0);
	m = mt_image_mapping_of(&im, address);
	if (!m || address - m->start >= im.kept[m - im.mapping])
		return NULL;
	return k->data + (im.data[m - im.mapping] - k->data) + (address - m->start);
}

static uint64_t word_at(const struct kept *k, uint64_t address)
{
	uint64_t word = 0;
	const uint8_t *at = bytes_at(k, address);

	if (at)
		memcpy(&word, at, sizeof(word));
	return word;
}

static void set_word(const struct kept *k, uint64_t address, uint64_t word)
{
	uint8_t *at = bytes_at(k, address);

	assert_non_null(at);
	memcpy(at, &word, sizeof(word));
}

static uint64_t sum_of_mapped(const struct mt_heap *h)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < h->arena_count; i++)
		sum += h->arenas[i].mapped_blocks;
	return sum;
}

static void kept_heaps_are_whole(void **state)
{
	static const char *const names[] = {"glibc",    "glibc-threads", "musl",
					    "mimalloc", "tcmalloc",      "scudo"};
	static const char *const allocators[] = {
		"glibc", "glibc", "musl", "mimalloc", "tcmalloc (gperftools)", "scudo"};
	static const size_t arenas[] = {1, 2, 1, 2, 1, 1};
	/*
	 * 23 that tiny.c keeps in each thread, a large one, libc's own for the second thread; three
	 * of the C++ library that tcmalloc brings
	 */
	static const size_t count[] = {24, 48, 24, 48, 51, 48};
	/* the large one has a mapping of its own, but for mimalloc */
	static const size_t mapped[] = {1, 1, 1, 0, 1, 1};

	for (size_t i = 0; i < 6; i++) {
		struct kept k = load(names[i]);
		struct mt_heap h;
		struct mt_err err;
		uint64_t live = 0;

		assert_int_equal(read_heap(&k, &h, &err), 0);
		if (h.damages_in_all)
			fail_msg("%s: 0x%llx %s", names[i],
				 (unsigned long long)h.damages[0].address, h.damages[0].text);
		assert_string_equal(h.allocator, allocators[i]);
		assert_int_equal(h.skipped_bytes, 0);
		assert_int_equal(h.arena_count, arenas[i]);
		for (size_t a = 0; a < h.arena_count; a++)
			live += h.arenas[a].live_blocks;
		assert_int_equal(live, h.block_count);
		assert_int_equal(h.block_count, count[i]);
		assert_int_equal(sum_of_mapped(&h), mapped[i]);
		mt_heap_done(&h);
		free(k.data);
	}
}

static void another_version_is_refused_by_name(void **state)
{
	struct kept k = load("glibc");
	uint8_t *version = memmem(k.data, k.bytes, "version 2.36", 12);
	struct mt_heap h;
	struct mt_err err;

	assert_non_null(version);
	memcpy(version, "version 2.42", 12);
	assert_int_equal(read_heap(&k, &h, &err), -ENOTSUP);
	assert_string_equal(err.text,
			    "'fake' is glibc 2.42, the layout of whose heap is not known; "
			    "known are 2.27 to 2.41");
	memcpy(version, "version x.yz", 12);
	assert_int_equal(read_heap(&k, &h, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "does not tell its version"));
	free(k.data);
}

static void arena_that_is_none_is_refused(void **state)
{
	struct kept k = load("glibc");
	struct mt_heap h;
	struct mt_err err;
	uint64_t arena;

	assert_int_equal(read_heap(&k, &h, &err), 0);
	arena = h.arenas[0].address;
	mt_heap_done(&h);
	for (uint64_t at = arena + 112; at < arena + 112 + 2032; at += 8)
		set_word(&k, at, 0x5a5a5a5a5a5a5a5a);
	assert_int_equal(read_heap(&k, &h, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "is built as the main arena of glibc 2.36"));
	free(k.data);
}

/* Offsets of struct malloc_state. */
enum { AT_FAST = 16, AT_TOP = 96, AT_BINS = 112, AT_NEXT = 2160 };

struct damage_case {
	const char *what;
	uint64_t at;   /* in the main arena */
	uint64_t word; /* what it becomes */
	const char *text;
};

static void damage_of_the_arena_is_told(void **state)
{
	struct kept k = load("glibc");
	struct mt_heap h;
	struct mt_err err;
	size_t before;
	uint64_t arena, block;

	assert_int_equal(read_heap(&k, &h, &err), 0);
	before = h.block_count;
	arena = h.arenas[0].address;
	block = h.blocks[before / 2].address;
	mt_heap_done(&h);
	const struct damage_case cases[] = {
		{"fast", AT_FAST, block - 16 + 8, "which is none"},
		{"ring", AT_NEXT, block, "as the next one, where there is none"},
		{"top", AT_TOP, block & ~15ull, "last chunk"},
		{"bin", AT_BINS + 160, block - 16, "free list"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t old = word_at(&k, arena + cases[i].at);
		bool is_told = false;

		set_word(&k, arena + cases[i].at, cases[i].word);
		assert_int_equal(read_heap(&k, &h, &err), 0);
		assert_true(h.damages_in_all > 0);
		for (size_t d = 0; d < h.damage_count; d++)
			is_told |= strstr(h.damages[d].text, cases[i].text) != NULL;
		if (!is_told)
			fail_msg("%s: %s", cases[i].what, h.damages[0].text);
		mt_heap_done(&h);
		set_word(&k, arena + cases[i].at, old);
	}
	free(k.data);
}

static void ring_of_cached_blocks_ends(void **state)
{
	struct kept k = load("glibc");
	struct mt_heap h;
	struct mt_err err;
	uint64_t cache = 0;

	assert_int_equal(read_heap(&k, &h, &err), 0);
	assert_true(h.arenas[0].cached_blocks > 5);
	assert_int_equal(h.arenas[0].own_blocks, 1);
	/* the first chunk of the heap holds the heads: a block that leads to itself */
	cache = h.ranges[0].start + 16;
	for (unsigned i = 0; i < 64; i++) {
		uint64_t entry = word_at(&k, cache + 128 + 8 * i);

		if (entry)
			set_word(&k, entry, entry >> 12 ^ entry);
	}
	mt_heap_done(&h);
	assert_int_equal(read_heap(&k, &h, &err), 0);
	assert_true(h.block_count > 0);
	mt_heap_done(&h);
	free(k.data);
}

/* Of the first block's segment: offsets in its head, and in the descriptor of its second page. */
enum {
	AT_COOKIE = 216,
	AT_USED = 208,
	AT_PAGE_1 = 264 + 80,
	AT_SLICES = AT_PAGE_1,
	AT_CAPACITY = AT_PAGE_1 + 8,
	AT_FREE = AT_PAGE_1 + 16,
	AT_COUNTS = AT_PAGE_1 + 24,
	AT_HEAP = AT_PAGE_1 + 48,
};

static void damage_of_a_segment_is_told(void **state)
{
	struct kept k = load("mimalloc");
	struct mt_heap h;
	struct mt_err err;
	size_t before;
	uint64_t segment, first;

	assert_int_equal(read_heap(&k, &h, &err), 0);
	before = h.block_count;
	first = h.blocks[0].address;
	segment = first >> 25 << 25;
	mt_heap_done(&h);
	const struct {
		uint64_t at, change;
		size_t fewer_least; /* blocks that are not told then */
		const char *text;
	} cases[] = {
		{AT_USED, 7, 20, "descriptors of this segment do not cover it"},
		{AT_SLICES, 3, 20, "descriptors of this segment do not cover it"},
		{AT_CAPACITY, 1ull << 47, 1, "descriptor of this page is damaged"},
		{AT_FREE, 1, 1, "leads to what is none"},
		{AT_COUNTS, 1, 0, "blocks as in use, but has"},
		{AT_HEAP, 8, 0, "as the heap of its thread, which is none"},
	};
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t old = word_at(&k, segment + cases[i].at);

		set_word(&k, segment + cases[i].at, old ^ cases[i].change);
		assert_int_equal(read_heap(&k, &h, &err), 0);
		assert_int_equal(h.damages_in_all, 1);
		if (!strstr(h.damages[0].text, cases[i].text))
			fail_msg("%zu: %s", i, h.damages[0].text);
		assert_in_range(h.block_count, before / 2 - 4, before - cases[i].fewer_least);
		assert_int_equal(h.skipped_bytes > 0, cases[i].fewer_least > 0);
		mt_heap_done(&h);
		set_word(&k, segment + cases[i].at, old);
	}
	/* what has another cookie is no segment, but its heap's queues lead there */
	set_word(&k, segment + AT_COOKIE, word_at(&k, segment + AT_COOKIE) ^ 1);
	assert_int_equal(read_heap(&k, &h, &err), 0);
	assert_true(h.block_count > 0 && h.block_count < before);
	assert_true(h.damages_in_all > 0);
	assert_non_null(strstr(h.damages[0].text, "where no segment is"));
	mt_heap_done(&h);
	free(k.data);
}

/* A place in the image that holds a word, from an address on; 0: there is none. */
static uint64_t place_of(const struct kept *k, uint64_t word)
{
	struct mt_image im;

	assert_int_equal(fake_image_open(&im, k->data, k->bytes), 0);
	for (size_t i = 0; i < im.count; i++)
		for (size_t at = 0; at + 8 <= im.kept[i]; at += 8)
			if (!memcmp(im.data[i] + at, &word, 8))
				return im.mapping[i].start + at;
	return 0;
}

static void damage_of_a_span_is_told(void **state)
{
	struct kept k = load("tcmalloc");
	struct mt_heap h;
	struct mt_err err;
	size_t before;
	uint64_t span, cache;

	assert_int_equal(read_heap(&k, &h, &err), 0);
	before = h.block_count;
	/* the span of the first block of 72 to 80 bytes begins with the number of its page */
	size_t i = 0;

	while (i < before && h.blocks[i].bytes != 80)
		i++;
	assert_true(i < before);
	span = place_of(&k, h.blocks[i].address >> 13);
	cache = word_at(&k, word_at(&k, 0x10000));
	mt_heap_done(&h);
	assert_true(span && cache);
	const struct {
		uint64_t at, change;
		const char *text;
	} cases[] = {
		{span, 1, "is not its span"},
		{span + 32, 8, "a span has 0x"},
		{span + 40, 1, "blocks as given away, but has"},
		{span + 40, 0x7f0000, "a class of blocks that none has"},
		{cache + 32 * 5 + 8, 1, "this cache of a thread counts"},
	};
	for (size_t c = 0; c < sizeof(cases) / sizeof(cases[0]); c++) {
		uint64_t old = word_at(&k, cases[c].at);
		bool is_told = false;

		set_word(&k, cases[c].at, old ^ cases[c].change);
		assert_int_equal(read_heap(&k, &h, &err), 0);
		for (size_t d = 0; d < h.damage_count; d++)
			is_told |= strstr(h.damages[d].text, cases[c].text) != NULL;
		if (!is_told)
			fail_msg("%zu: %s", c, h.damage_count ? h.damages[0].text : "nothing");
		assert_true(h.block_count > before / 2);
		mt_heap_done(&h);
		set_word(&k, cases[c].at, old);
	}
	/* a cache of another layout: freed blocks cannot be told from live ones */
	set_word(&k, cache + 32 * 5 + 24, 3);
	assert_int_equal(read_heap(&k, &h, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "freed blocks cannot be told from live ones"));
	free(k.data);
}

static void damage_of_scudo_is_told(void **state)
{
	struct kept k = load("scudo");
	struct mt_heap h;
	struct mt_err err;
	size_t before;
	uint64_t block, large, header, array;

	assert_int_equal(read_heap(&k, &h, &err), 0);
	before = h.block_count;
	block = h.blocks[before / 2].address;
	array = h.arenas[0].address;
	large = 0;
	for (size_t i = 0; i < before; i++)
		if (h.blocks[i].bytes == 300000)
			large = h.blocks[i].address;
	mt_heap_done(&h);
	assert_true(large);
	header = word_at(&k, block - 16);
	/* its size, its state, its checksum */
	for (unsigned bit = 8; bit < 64; bit += 13) {
		set_word(&k, block - 16, header ^ 1ull << bit);
		assert_int_equal(read_heap(&k, &h, &err), 0);
		assert_int_equal(h.damages_in_all, 1);
		assert_string_equal(h.damages[0].text, "the header of this block is damaged");
		assert_int_equal(h.block_count, before - 1);
		assert_true(h.skipped_bytes > 0);
		mt_heap_done(&h);
	}
	set_word(&k, block - 16, header);
	/* the list of large blocks: one that leads to itself */
	set_word(&k, large - 64 + 8, large - 64);
	assert_int_equal(read_heap(&k, &h, &err), 0);
	assert_int_equal(h.damages_in_all, 1);
	assert_non_null(strstr(h.damages[0].text, "they are missing"));
	assert_int_equal(h.block_count, before - 1);
	mt_heap_done(&h);
	set_word(&k, large - 64 + 8, 0);
	/* another secret, another array */
	set_word(&k, array - 192, word_at(&k, array - 192) ^ 1);
	assert_int_equal(read_heap(&k, &h, &err), -ENOTSUP);
	assert_non_null(strstr(err.text, "with a secret that its headers prove"));
	set_word(&k, array - 192, word_at(&k, array - 192) ^ 1);
	set_word(&k, array + 192 + 32, 4096);
	assert_int_equal(read_heap(&k, &h, &err), -ENOTSUP);
	free(k.data);
}

static void another_mimalloc_is_refused_by_name(void **state)
{
	struct kept k = load("mimalloc");
	struct mt_heap h;
	struct mt_err err;

	bytes_at(&k, 0x10000)[1] = 224;
	assert_int_equal(read_heap(&k, &h, &err), -ENOTSUP);
	assert_string_equal(err.text, "'fake' is mimalloc 2.2.4, the layout of whose heap is not "
				      "known; known is 2.0.9");
	free(k.data);
}

static void lack_of_memory_is_an_error_each_time(void **state)
{
	static const char *const names[] = {"glibc-threads", "musl", "mimalloc", "tcmalloc",
					    "scudo"};

	for (size_t i = 0; i < 5; i++) {
		struct kept k = load(names[i]);
		struct mt_heap h;
		struct mt_err err;
		size_t needed;

		mt_alloc_fail_from_for_test(0);
		assert_int_equal(read_heap(&k, &h, &err), 0);
		mt_heap_done(&h);
		needed = mt_alloc_fail_from_for_test(0);
		assert_true(needed > 5);
		for (size_t n = 1; n <= needed; n++) {
			mt_alloc_fail_from_for_test(n);
			assert_int_equal(read_heap(&k, &h, &err), -ENOMEM);
			mt_alloc_fail_from_for_test(0);
			assert_int_equal(err.code, -ENOMEM);
		}
		free(k.data);
	}
}

static void block_of_an_address(void **state)
{
	struct mt_heap_block blocks[] = {{0x1000, 24}, {0x1020, 0}, {0x1030, 100}};
	struct mt_heap h = {.blocks = blocks, .block_count = 3};

	assert_null(mt_heap_block_of(&h, 0xfff));
	assert_ptr_equal(mt_heap_block_of(&h, 0x1000), &blocks[0]);
	assert_ptr_equal(mt_heap_block_of(&h, 0x1017), &blocks[0]);
	assert_null(mt_heap_block_of(&h, 0x1018));
	assert_ptr_equal(mt_heap_block_of(&h, 0x1020), &blocks[1]);
	assert_null(mt_heap_block_of(&h, 0x1021));
	assert_ptr_equal(mt_heap_block_of(&h, 0x1093), &blocks[2]);
	assert_null(mt_heap_block_of(&h, 0x1094));
}

static void pages_with_little_on_them_have_owners(void **state)
{
	/*
	 * Page 1: a block of 7 and one of 8. From the end of 3 to the start of 5: one of 9.
	 * 6: a byte more than half. 7: one of nobody. 9: not of the heap. 10: just half, of 8 and
	 * of nobody.
	 */
	struct mt_heap_block blocks[] = {{0x1000, 50},   {0x1100, 50},   {0x3f00, 0x1200},
					 {0x6000, 2048}, {0x6f00, 0},    {0x7010, 8},
					 {0x9000, 8},    {0xa000, 2040}, {0xa800, 8}};
	struct mt_heap_range ranges[] = {{0x1000, 0x8000, 0}, {0xa000, 0xb000, 0}};
	const struct mt_heap_owner owners[] = {{0x1000, 7}, {0x1110, 8}, {0x3f10, 9},
					       {0x6000, 7}, {0x9000, 7}, {0xa001, 8}};
	struct mt_heap h = {.blocks = blocks, .block_count = 9, .ranges = ranges, .range_count = 2};
	const struct mt_heap_pinner wanted[] = {
		{.owner = 8, .page_bytes = 8192, .live_bytes = 2090, .live_blocks = 2},
		{.owner = 0, .page_bytes = 8192, .alone_bytes = 4096, .live_bytes = 16},
		{.owner = 9, .page_bytes = 8192, .alone_bytes = 8192, .live_bytes = 512},
		{.owner = 7, .page_bytes = 4096, .live_bytes = 50},
	};
	struct mt_heap_pinned p;

	assert_int_equal(mt_heap_pinned_find(&h, 4096, owners, 6, &p), 0);
	assert_int_equal(p.page_bytes, 5 * 4096);
	assert_int_equal(p.live_bytes, 2090 + 16 + 512 + 50);
	assert_int_equal(p.pinner_count, 4);
	for (size_t i = 0; i < p.pinner_count; i++) {
		size_t k = 0;

		while (k < 4 && wanted[k].owner != p.pinners[i].owner)
			k++;
		assert_true(k < 4);
		assert_int_equal(p.pinners[i].page_bytes, wanted[k].page_bytes);
		assert_int_equal(p.pinners[i].alone_bytes, wanted[k].alone_bytes);
		assert_int_equal(p.pinners[i].live_bytes, wanted[k].live_bytes);
	}
	assert_int_equal(p.pinners[0].owner, 9);       /* the most alone */
	assert_int_equal(p.pinners[0].live_blocks, 1); /* on two pages */
	mt_heap_pinned_done(&p);
	for (size_t n = 1; n < 5; n++) {
		mt_alloc_fail_from_for_test(n);
		assert_int_equal(mt_heap_pinned_find(&h, 4096, owners, 6, &p), -ENOMEM);
		mt_alloc_fail_from_for_test(0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(kept_heaps_are_whole),
		cmocka_unit_test(another_version_is_refused_by_name),
		cmocka_unit_test(arena_that_is_none_is_refused),
		cmocka_unit_test(damage_of_the_arena_is_told),
		cmocka_unit_test(ring_of_cached_blocks_ends),
		cmocka_unit_test(damage_of_a_segment_is_told),
		cmocka_unit_test(damage_of_a_span_is_told),
		cmocka_unit_test(damage_of_scudo_is_told),
		cmocka_unit_test(another_mimalloc_is_refused_by_name),
		cmocka_unit_test(lack_of_memory_is_an_error_each_time),
		cmocka_unit_test(block_of_an_address),
		cmocka_unit_test(pages_with_little_on_them_have_owners),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
