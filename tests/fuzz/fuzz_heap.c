/* SPDX-License-Identifier: MIT */
/*
 * Any bytes as the memory of a process with a heap (tests/heaps/fake_image.h), and the same with
 * some more of them changed: read without a fault, in bounded time, and what comes out is in order.
 */
#include "../heaps/fake_image.h"

#include "heap/heap.h"

#include <stdio.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

enum { VARIANTS = 24 };

static void check(const struct mt_heap *h)
{
	for (size_t i = 0; i < h->block_count; i++) {
		const struct mt_heap_block *b = &h->blocks[i];

		if (i && b[-1].address + (b[-1].bytes ? b[-1].bytes : 1) > b->address)
			abort();
		if (b->bytes && mt_heap_block_of(h, b->address + b->bytes - 1) != b)
			abort();
	}
	for (size_t i = 0; i < h->range_count; i++)
		if (h->ranges[i].start >= h->ranges[i].end ||
		    h->ranges[i].arena >= h->arena_count ||
		    (i && h->ranges[i - 1].end > h->ranges[i].start))
			abort();
	if (h->damage_count > h->damages_in_all || !h->allocator)
		abort();
	for (size_t i = 0; i < h->damage_count; i++)
		if (!h->damages[i].text[0])
			abort();
}

/* -1: the bytes are no image. */
static int read_one(const uint8_t *data, size_t size_bytes)
{
	struct mt_image im;
	struct mt_heap h = {0};
	struct mt_err err = {0};

	if (fake_image_open(&im, data, size_bytes))
		return -1;
	if (mt_heap_read(&im, &h, &err)) {
		if (!err.code || !err.text[0])
			abort();
		return 0;
	}
	check(&h);
	mt_heap_done(&h);
	return 0;
}

static uint64_t next(uint64_t *random)
{
	*random ^= *random << 13;
	*random ^= *random >> 7;
	*random ^= *random << 17;
	return *random >> 11;
}

/* Single bytes, words that are small numbers, and words taken from elsewhere. */
static void change(uint8_t *data, size_t size_bytes, uint64_t *random)
{
	const size_t at = 24 + next(random) % (size_bytes - 32), word = at & ~(size_t)7;
	uint64_t small = next(random) % 1024;

	switch (next(random) % 3) {
	case 0:
		data[at] ^= (uint8_t)(1 << next(random) % 8);
		break;
	case 1:
		memcpy(data + word, &small, sizeof(small));
		break;
	default:
		memmove(data + word, data + 24 + (next(random) % (size_bytes - 32) & ~(size_t)7),
			8);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	uint64_t random = 88172645463325252ull + size_bytes;
	uint8_t *copy;

	if (size_bytes < 64 || read_one(data, size_bytes))
		return 0;
	copy = malloc(size_bytes);
	for (unsigned i = 0; copy && i < VARIANTS; i++) {
		memcpy(copy, data, size_bytes);
		for (unsigned k = 0; k <= i; k++)
			change(copy, size_bytes, &random);
		read_one(copy, size_bytes);
	}
	free(copy);
	return 0;
}
