/* SPDX-License-Identifier: MIT */
/*
 * Reads the heap of jemalloc 5.3.0 (64 bit, pages of 4 KiB) from outside. A tree of two levels
 * leads from each page to the descriptor of its extent; its root lies in the library's writable
 * memory, at the one place where descriptors have the addresses that their places in the tree say.
 * Regions that caches of threads hold are in use as far as slabs tell: the caches lie in
 * thread-local memory, and are known by their stacks lying one behind the other.
 */

#include "heap/build.h"

#include "base/alloc.h"
#include "base/search.h"
#include "target/pagemap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	PAGE_SHIFT = 12,
	LEVEL_BITS = 18,
	LEVEL_ENTRIES = 1 << LEVEL_BITS,
	LEVEL_BYTES = LEVEL_ENTRIES * 8,
	EXTENT_BYTES = 128, /* of a descriptor, and its alignment */
	REGIONS_MAX = 512,
	CLASSES = 232,
	BINS_MIN = 30, /* of a cache, to be one */
	BINS_MAX = 72,
	TLS_BYTES_MAX = 64 << 10,
	ARENAS_MAX = 4095,
};

#define OWN_BYTES ((uint64_t)2 << 20)

enum state { STATE_ACTIVE, STATE_DIRTY, STATE_MUZZY, STATE_RETAINED };

static const uint64_t huge_bytes = 2 << 20;

/* A descriptor, as it lies in memory. */
struct extent {
	uint64_t bits, address, size, hugepage, serial, link[3];
	uint64_t free_regions[8]; /* a bit for each */
};
_Static_assert(sizeof(struct extent) == EXTENT_BYTES, "as edata_t");

/* A bin of a cache: a stack that grows down. */
struct bin {
	uint64_t head, requests;
	uint16_t low_water, full, empty, pad;
};
_Static_assert(sizeof(struct bin) == 24, "as cache_bin_t");

struct block {
	uint64_t address;
	uint32_t arena;
	uint8_t class, is_cached, is_own;
};

struct jemalloc {
	struct mt_heap_build *b;
	struct mt_pagemap present;
	uint64_t root;
	uint64_t last_own;    /* added last, see take_own() */
	struct block *blocks; /* sorted after the walk */
	size_t block_count, block_cap;
	uint32_t arena_of[ARENAS_MAX + 1]; /* index in h->arenas + 1 */
};

static uint64_t class_bytes(unsigned class)
{
	unsigned group;

	if (class < 5)
		return class ? 16ull * class : 8;
	group = (class - 5) / 4;
	return (64ull << group) + ((class - 5) % 4 + 1) * (16ull << group);
}

static unsigned arena_bits(const struct extent *e)
{
	return e->bits & ARENAS_MAX;
}

static bool is_slab(const struct extent *e)
{
	return e->bits >> 12 & 1;
}

static unsigned state_of(const struct extent *e)
{
	return e->bits >> 17 & 7;
}

static unsigned class_of(const struct extent *e)
{
	return e->bits >> 20 & 255;
}

static unsigned free_count(const struct extent *e)
{
	return e->bits >> 28 & 1023;
}

static uint64_t base_of(const struct extent *e)
{
	return MT_ALIGN_DOWN(e->address, (uint64_t)1 << PAGE_SHIFT);
}

static uint64_t size_of(const struct extent *e)
{
	return MT_ALIGN_DOWN(e->size, (uint64_t)1 << PAGE_SHIFT);
}

/* ---- the tree ---- */

static uint64_t descriptor_of(uint64_t entry)
{
	return (uint64_t)((int64_t)(entry << 16) >> 16) & ~(uint64_t)(EXTENT_BYTES - 1);
}

/* The descriptor that an entry of a leaf names: -ENOENT: none; -EINVAL: what it names is none. */
static int extent_of(struct jemalloc *j, uint64_t entry, struct extent *e)
{
	uint64_t at = descriptor_of(entry);

	if (!at)
		return -ENOENT;
	if (mt_peek(&j->b->peek, at, e, sizeof(*e)) || !size_of(e) || state_of(e) > 5 ||
	    base_of(e) + size_of(e) < base_of(e))
		return -EINVAL;
	return 0;
}

/*
 * The index in the root of a leaf, by what its first entries name; -1: this is no leaf. Leaves are
 * mostly pages that were never written.
 */
static int64_t index_of_leaf(struct jemalloc *j, uint64_t leaf)
{
	const uint64_t page = 1 << PAGE_SHIFT;
	int64_t index = -1;
	unsigned seen = 0;

	for (uint64_t at = 0; at < LEVEL_BYTES && seen < 64; at += 8) {
		struct extent e;
		uint64_t entry, address;

		if (!((leaf + at) & (page - 1)))
			at = mt_pagemap_next(&j->present, leaf + at, leaf + LEVEL_BYTES) - leaf;
		if (at >= LEVEL_BYTES)
			break;
		if (mt_peek_u64(&j->b->peek, leaf + at, &entry))
			return -1;
		if (!entry || extent_of(j, entry, &e) == -ENOENT)
			continue;
		if (extent_of(j, entry, &e))
			return -1;
		if (index < 0)
			index = (int64_t)(base_of(&e) >> (PAGE_SHIFT + LEVEL_BITS));
		address = ((uint64_t)index << LEVEL_BITS | at / 8) << PAGE_SHIFT;
		if (address < base_of(&e) || address - base_of(&e) >= size_of(&e))
			return -1;
		seen++;
	}
	return seen ? index : -1;
}

/* Whether all leaves of the root at `data` are leaves of their places; data is of LEVEL_BYTES. */
static bool is_root(struct jemalloc *j, const uint8_t *data)
{
	unsigned leaves = 0;

	for (int64_t i = 0; i < LEVEL_ENTRIES; i++) {
		uint64_t leaf;

		memcpy(&leaf, data + i * 8, sizeof(leaf));
		if (!leaf)
			continue;
		if (leaf & 7 || !mt_heap_is_writable(j->b, leaf, LEVEL_BYTES))
			return false;
		int64_t index = index_of_leaf(j, leaf);

		if (index >= 0 && index != i)
			return false;
		leaves += index == i;
	}
	return leaves > 0;
}

static int find_in_segment(struct jemalloc *j, const struct mt_image_segment *s)
{
	size_t bytes;
	mt_auto(free) uint8_t *data = mt_heap_segment_bytes(j->b->im, s, &bytes);

	if (!data)
		return -ENOMEM;
	if (bytes < LEVEL_BYTES)
		return -ENOENT;
	for (size_t at = 0; at + 8 <= bytes; at += 8) {
		uint64_t leaf;
		int64_t index;
		size_t root;

		memcpy(&leaf, data + at, sizeof(leaf));
		if (!leaf || leaf & 7 || !mt_heap_is_writable(j->b, leaf, LEVEL_BYTES))
			continue;
		index = index_of_leaf(j, leaf);
		if (index < 0 || (uint64_t)index * 8 > at)
			continue;
		root = at - (size_t)index * 8;
		if (root + LEVEL_BYTES <= bytes && is_root(j, data + root)) {
			j->root = s->start + root;
			return 0;
		}
	}
	return -ENOENT;
}

static int find_root(struct jemalloc *j, const struct mt_image_module *m, struct mt_err *err)
{
	char text[32];
	int code = mt_heap_find_text(j->b->im, m, "5.3.0-", text, sizeof(text));

	if (code == -ENOMEM)
		return mt_err_no_memory(err);
	if (code || j->b->arch != MT_IMAGE_X86_64)
		return mt_err_set(err, -ENOTSUP,
				  "'%s' is jemalloc, but not 5.3.0 for x86-64: the layout of its "
				  "heap is not known",
				  m->path);
	code = -ENOENT;
	for (uint32_t i = 0; i < m->segment_count && code == -ENOENT; i++)
		if (m->segments[i].flags & MT_MAPPING_WRITE)
			code = find_in_segment(j, &m->segments[i]);
	if (code == -ENOMEM)
		return mt_err_no_memory(err);
	if (code)
		return mt_err_set(err, -ENOTSUP,
				  "nothing in '%s' is built as the tree of extents of jemalloc "
				  "5.3.0 is",
				  m->path);
	return 0;
}

/* ---- memory of jemalloc's own ---- */

/* The start of a block that jemalloc takes for its structures, at a multiple of huge_bytes. */
struct base_block {
	uint64_t size, next;
	struct extent rest; /* never given yet: up to the block's end */
};

/* The bytes of such a block at an address, 0: it is none. */
static uint64_t base_bytes_at(struct jemalloc *j, uint64_t at)
{
	struct base_block b;

	if (mt_peek(&j->b->peek, at, &b, sizeof(b)) || !b.size || b.size & (huge_bytes - 1) ||
	    b.next & (huge_bytes - 1) || arena_bits(&b.rest) != ARENAS_MAX ||
	    b.rest.address < at + sizeof(b) || b.rest.address > at + b.size ||
	    b.rest.address + b.rest.size != at + b.size)
		return 0;
	return mt_heap_is_writable(j->b, at, b.size) ? b.size : 0;
}

/* Descriptors, the tree and what else lies there point to blocks, and are no part of the program.
 */
static void find_base_blocks(struct jemalloc *j)
{
	size_t count;
	const struct mt_mapping *map = mt_image_mappings(j->b->im, &count);

	if (!j->b->h->arena_count)
		return;
	for (size_t i = 0; i < count && !j->b->failed; i++) {
		uint64_t at = MT_ALIGN_UP(map[i].start, huge_bytes), bytes;

		if (!(map[i].flags & MT_MAPPING_WRITE))
			continue;
		for (; at < map[i].end && at >= map[i].start; at += bytes ? bytes : huge_bytes) {
			bytes = base_bytes_at(j, at);
			mt_heap_add_range(j->b, at, at + bytes, 0);
		}
	}
}

/* ---- extents ---- */

static struct mt_heap_arena *arena_at(struct jemalloc *j, unsigned number, uint32_t *ret_index)
{
	if (!j->arena_of[number])
		j->arena_of[number] = mt_heap_add_arena(j->b, 0) + 1;
	if (j->b->failed)
		return NULL;
	*ret_index = j->arena_of[number] - 1;
	return &j->b->h->arenas[*ret_index];
}

static void add_block(struct jemalloc *j, uint32_t arena, uint64_t address, unsigned class)
{
	struct block *grown =
		mt_alloc_grow(j->blocks, &j->block_cap, j->block_count + 1, sizeof(*grown));

	if (!grown) {
		j->b->failed = true;
		return;
	}
	j->blocks = grown;
	j->blocks[j->block_count++] =
		(struct block){.address = address, .arena = arena, .class = (uint8_t) class};
}

static void walk_slab(struct jemalloc *j, const struct extent *e, uint32_t arena,
		      struct mt_heap_arena *a)
{
	uint64_t region = class_bytes(class_of(e)), count = size_of(e) / region, free_regions = 0;

	for (uint64_t i = 0; i < count && i < REGIONS_MAX; i++)
		free_regions += e->free_regions[i / 64] >> i % 64 & 1;
	if (count > REGIONS_MAX || count * region != size_of(e) || free_regions != free_count(e)) {
		mt_heap_add_damage(j->b, base_of(e),
				   "the descriptor of this slab does not count its free blocks");
		j->b->h->skipped_bytes += size_of(e);
		return;
	}
	a->free_blocks += free_regions;
	a->free_bytes += free_regions * region;
	for (uint64_t i = 0; i < count; i++)
		if (!(e->free_regions[i / 64] >> i % 64 & 1))
			add_block(j, arena, e->address + i * region, class_of(e));
}

static void walk_extent(struct jemalloc *j, const struct extent *e)
{
	uint32_t arena;
	struct mt_heap_arena *a;

	if (state_of(e) > STATE_MUZZY)
		return; /* address space alone, or on its way to it */
	a = arena_at(j, arena_bits(e), &arena);
	if (!a)
		return;
	a->held_bytes += size_of(e);
	mt_heap_add_range(j->b, base_of(e), base_of(e) + size_of(e), arena);
	if (state_of(e) != STATE_ACTIVE) {
		a->free_blocks++;
		a->free_bytes += size_of(e);
		a->free_page_bytes += size_of(e);
	} else if (class_of(e) >= CLASSES ||
		   (!is_slab(e) && class_bytes(class_of(e)) > size_of(e))) {
		mt_heap_add_damage(j->b, base_of(e),
				   "the descriptor of this extent has a size that none has");
		j->b->h->skipped_bytes += size_of(e);
	} else if (is_slab(e)) {
		walk_slab(j, e, arena, a);
	} else {
		add_block(j, arena, e->address, class_of(e));
		a->mapped_blocks++;
		a->mapped_bytes += class_bytes(class_of(e));
	}
}

/*
 * What jemalloc keeps for itself, descriptors and leaves, lies in mappings of its own: at multiples
 * of 2 MiB, and as large.
 */
static void take_own(struct jemalloc *j, uint64_t address)
{
	uint64_t start = MT_ALIGN_DOWN(address, OWN_BYTES);

	if (start == j->last_own)
		return;
	j->last_own = start;
	if (mt_heap_is_writable(j->b, start, OWN_BYTES))
		mt_heap_add_range(j->b, start, start + OWN_BYTES, 0);
}

static void take_range(struct jemalloc *j, uint64_t entry, const struct extent *e)
{
	mt_heap_add_range(j->b, base_of(e), base_of(e) + size_of(e), 0);
	take_own(j, descriptor_of(entry));
}

static void walk_leaf(struct jemalloc *j, uint64_t leaf, uint64_t index)
{
	for (uint64_t at = 0; at < LEVEL_BYTES && !j->b->failed; at += 8) {
		uint64_t address, entry;
		struct extent e;
		int code;

		if (!((leaf + at) & ((1 << PAGE_SHIFT) - 1)))
			at = mt_pagemap_next(&j->present, leaf + at, leaf + LEVEL_BYTES) - leaf;
		if (at >= LEVEL_BYTES)
			return;
		address = (index << LEVEL_BITS | at / 8) << PAGE_SHIFT;
		if (mt_peek_u64(&j->b->peek, leaf + at, &entry))
			continue;
		code = entry ? extent_of(j, entry, &e) : -ENOENT;
		if (code == -ENOENT)
			continue;
		if (code || address < base_of(&e) || address - base_of(&e) >= size_of(&e))
			mt_heap_add_damage(j->b, address,
					   "what the tree has for this page is not its extent");
		else if (address == base_of(&e) && j->b->ranges_only)
			take_range(j, entry, &e);
		else if (address == base_of(&e))
			walk_extent(j, &e);
	}
}

static void walk_tree(struct jemalloc *j)
{
	for (uint64_t i = 0; i < LEVEL_ENTRIES; i++) {
		uint64_t leaf;

		if (mt_peek_u64(&j->b->peek, j->root + 8 * i, &leaf) || !leaf ||
		    !mt_heap_is_writable(j->b, leaf, LEVEL_BYTES))
			continue;
		if (j->b->ranges_only)
			take_own(j, leaf);
		walk_leaf(j, leaf, i);
	}
}

/* ---- caches ---- */

static int by_address(const void *a, const void *b)
{
	const struct block *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

/* The last block that begins at or before an address, or NULL. */
static struct block *block_before(const struct jemalloc *j, uint64_t address)
{
	size_t low = MT_SEARCH_UP_TO(j->blocks, j->block_count, address, address);

	return low ? &j->blocks[low - 1] : NULL;
}

static uint64_t empty_of(const struct bin *b)
{
	return b->head + (uint16_t)(b->empty - (uint16_t)b->head);
}

static uint64_t full_of(const struct bin *b)
{
	return empty_of(b) - (uint16_t)(b->empty - b->full);
}

/* How many bins begin at an address of thread-local memory, each stack behind the one before. */
static unsigned bins_at(struct jemalloc *j, uint64_t at, struct bin bins[BINS_MAX])
{
	unsigned count;

	for (count = 0; count < BINS_MAX; count++) {
		struct bin *b = &bins[count];

		if (mt_peek(&j->b->peek, at + count * sizeof(*b), b, sizeof(*b)) || !b->head ||
		    b->head & 7 || b->empty & 7 || b->full & 7 || full_of(b) > b->head ||
		    empty_of(b) == full_of(b) || (count && full_of(b) != empty_of(b - 1)))
			break;
	}
	return count;
}

static void take_bin(struct jemalloc *j, const struct bin *bin, unsigned class)
{
	for (uint64_t at = bin->head; at < empty_of(bin); at += 8) {
		uint64_t address;
		struct block *k;

		if (mt_peek_u64(&j->b->peek, at, &address))
			return;
		k = block_before(j, address);
		if (k && k->address == address && k->class == class && !k->is_cached) {
			k->is_cached = true;
		} else {
			mt_heap_add_damage(j->b, at,
					   "a cache of a thread has 0x%" PRIx64
					   " as a free block of %" PRIu64 " bytes, which is none",
					   address, class_bytes(class));
		}
	}
}

/* The stacks lie in a block of jemalloc's own. */
static void take_stacks(struct jemalloc *j, const struct bin *first)
{
	struct block *k = block_before(j, full_of(first));

	if (k && full_of(first) - k->address < class_bytes(k->class))
		k->is_own = true;
}

static void take_cache(struct jemalloc *j, const struct mt_image_thread *t)
{
	struct bin bins[BINS_MAX];

	for (uint64_t back = 8; back < TLS_BYTES_MAX && back < t->thread_pointer; back += 8) {
		unsigned count = bins_at(j, t->thread_pointer - back, bins);

		if (count < BINS_MIN)
			continue;
		/* from the end of memory backwards: is this the first bin? */
		struct bin more[BINS_MAX];

		if (bins_at(j, t->thread_pointer - back - sizeof(bins[0]), more) > count)
			continue;
		take_stacks(j, &bins[0]);
		for (unsigned i = 0; i < count; i++)
			take_bin(j, &bins[i], i);
		return;
	}
}

static void emit(struct jemalloc *j)
{
	for (size_t i = 0; i < j->block_count; i++) {
		const struct block *k = &j->blocks[i];
		struct mt_heap_arena *a = &j->b->h->arenas[k->arena];
		uint64_t bytes = class_bytes(k->class);

		if (k->is_cached) {
			a->cached_blocks++;
			a->cached_bytes += bytes;
			a->free_blocks++;
			a->free_bytes += bytes;
		} else if (k->is_own) {
			a->own_blocks++;
			a->own_bytes += bytes;
		} else {
			mt_heap_add_live(j->b, k->arena, k->address, bytes);
		}
	}
}

static int read_all(struct jemalloc *j, const struct mt_image_module *m, struct mt_err *err)
{
	size_t count, known = 0;
	const struct mt_image_thread *t = mt_image_threads(j->b->im, &count);
	int code;

	for (size_t i = 0; i < count; i++)
		known += t[i].thread_pointer != 0;
	if (!known && !j->b->ranges_only)
		return mt_err_set(err, -ENOTSUP,
				  "caches of jemalloc cannot be told from live blocks without the "
				  "registers of threads, which a running process does not show");
	code = find_root(j, m, err);
	if (code)
		return code;
	memcpy(j->b->h->version, "5.3.0", sizeof("5.3.0"));
	walk_tree(j);
	find_base_blocks(j);
	if (j->b->ranges_only)
		return j->b->failed ? mt_err_no_memory(err) : 0;
	if (j->block_count)
		qsort(j->blocks, j->block_count, sizeof(*j->blocks), by_address);
	for (size_t i = 0; i < count; i++)
		if (t[i].thread_pointer)
			take_cache(j, &t[i]);
	emit(j);
	return j->b->failed ? mt_err_no_memory(err) : 0;
}

int mt_heap_read_jemalloc(struct mt_heap_build *b, const struct mt_image_module *m,
			  struct mt_err *err)
{
	struct jemalloc *j = mt_alloc_zero(1, sizeof(*j));
	int code;

	if (!j)
		return mt_err_no_memory(err);
	j->b = b;
	mt_pagemap_open_image(&j->present, b->im);
	code = read_all(j, m, err);
	mt_pagemap_close(&j->present);
	free(j->blocks);
	free(j);
	return code;
}
