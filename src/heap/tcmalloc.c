/* SPDX-License-Identifier: MIT */
/*
 * Reads the heap of gperftools' tcmalloc 2.10 (x86-64, pages of 8 KiB) from outside. A tree of two
 * levels leads from a page to its span; its root is the place in the library's writable memory
 * where every leaf's spans have the pages that their places say. Spans of small blocks have the
 * class of these, whose size is in a table that proves itself. Blocks are live but for those that
 * are on the list of their span, in a slot between threads, or in a thread's cache.
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
	PAGE_SHIFT = 13,
	LEAF_BITS = 18,
	LEAF_BYTES = 8 << LEAF_BITS,
	ROOT_ENTRIES = 1 << 17,
	ROOT_BYTES = 8 * ROOT_ENTRIES,
	OS_PAGE_BYTES = 4096,
	CLASSES_MAX = 128,
	CLASS_BYTES_MAX = 256 << 10,
	SIZES = 2169, /* that have a class: multiples of 8, then of 128 */
	SLOTS = 64,
	CENTRAL_BYTES = 1216, /* of the lists of a class, with padding */
	CACHES_MAX = 1 << 16,
	TRIES = 1 << 26,
};

/* Where the list of threads' caches begins: a static member, which the library exports. */
static const char caches_symbol[] = "_ZN8tcmalloc11ThreadCache13thread_heaps_E";

struct span {
	uint64_t page, pages, next, before, objects;
	uint32_t bits, pad;
};
_Static_assert(sizeof(struct span) == 48, "as tcmalloc::Span");
enum location { IN_USE, FREE, RETURNED };

/* Classes of sizes, as they lie in memory. */
struct classes {
	uint8_t of_size[SIZES], pad[3];
	int32_t moved[CLASSES_MAX]; /* from one thread to another at once */
	int32_t bytes[CLASSES_MAX];
	uint32_t pad_2;
	uint64_t pages[CLASSES_MAX], count;
};
_Static_assert(sizeof(struct classes) == 4232, "as tcmalloc::SizeMap");

/* What threads share of a class. */
struct central {
	uint32_t lock, pad;
	uint64_t class;
	struct span empty, others;
	uint64_t spans, free_count;
	struct {
		uint64_t head, tail;
	} slot[SLOTS];
	int32_t used_slots, slots, slots_max, pad_2;
};
_Static_assert(sizeof(struct central) == 1168, "as tcmalloc::CentralFreeList");

struct cache {
	struct {
		uint64_t head;
		uint32_t length, low_water, length_max, overages;
		int32_t block_bytes, pad;
	} list[CLASSES_MAX];
	int32_t bytes, bytes_max;
};
_Static_assert(sizeof(struct cache) == 4104, "as tcmalloc::ThreadCache, its first members");
enum { AT_CACHE_NEXT_MIN = 4104, AT_CACHE_NEXT_MAX = 4168 };

enum block_state { LIVE, IN_SPAN, IN_SLOT, IN_CACHE };

struct block {
	uint64_t address;
	uint8_t class, state;
};

struct tcmalloc {
	struct mt_heap_build *b;
	const struct mt_image_module *module;
	struct mt_pagemap present;
	uint64_t root, central, first_cache;
	struct classes classes;
	struct block *blocks; /* small ones, by address */
	size_t block_count, block_cap;
	struct mt_heap_arena *arena;
	uint64_t tries; /* entries of trees that may still be looked at: memory may be made up */
};

static unsigned refcount_of(const struct span *s)
{
	return s->bits & 0xffff;
}

static unsigned class_of(const struct span *s)
{
	return s->bits >> 16 & 0xff;
}

static unsigned location_of(const struct span *s)
{
	return s->bits >> 24 & 3;
}

/* ---- finding ---- */

/* The index in the table of sizes. */
static unsigned index_of_size(uint32_t bytes)
{
	return bytes <= 1024 ? (bytes + 7) >> 3 : (bytes + 127 + (120 << 7)) >> 7;
}

static bool are_classes(const struct classes *c)
{
	if (c->count < 16 || c->count > CLASSES_MAX || c->bytes[0] || c->bytes[1] != 8 ||
	    c->bytes[c->count - 1] != CLASS_BYTES_MAX)
		return false;
	for (unsigned i = 1; i < c->count; i++)
		if (c->bytes[i] <= c->bytes[i - 1] || c->bytes[i] & 7 || !c->pages[i] ||
		    c->pages[i] << PAGE_SHIFT < (uint64_t)c->bytes[i] ||
		    c->of_size[index_of_size((uint32_t)c->bytes[i])] != i)
			return false;
	return true;
}

/* The span that an entry of a leaf names: 0 or -EINVAL. */
static int read_span(struct tcmalloc *t, uint64_t at, struct span *s)
{
	if (at & 7 || mt_peek(&t->b->peek, at, s, sizeof(*s)) || !s->pages ||
	    s->page >> (LEAF_BITS + 17) || s->pages >> (LEAF_BITS + 17) ||
	    location_of(s) > RETURNED || class_of(s) >= CLASSES_MAX)
		return -EINVAL;
	return 0;
}

/* From an offset in a leaf on, the next entry on a page that was ever written. */
static uint64_t next_written(struct tcmalloc *t, uint64_t leaf, uint64_t at)
{
	if ((leaf + at) & (OS_PAGE_BYTES - 1))
		return at;
	return mt_pagemap_next(&t->present, leaf + at, leaf + LEAF_BYTES) - leaf;
}

/* The index in the root of a leaf, by its first span that begins where its place says; -1: no leaf.
 */
static int64_t index_of_leaf(struct tcmalloc *t, uint64_t leaf)
{
	for (uint64_t at = 0; at < LEAF_BYTES && t->tries; at += 8, t->tries--) {
		uint64_t entry;
		struct span s;

		at = next_written(t, leaf, at);
		if (at >= LEAF_BYTES || mt_peek_u64(&t->b->peek, leaf + at, &entry))
			return -1;
		if (!entry)
			continue;
		if (read_span(t, entry, &s))
			return -1;
		if ((s.page & ((1 << LEAF_BITS) - 1)) == at / 8)
			return (int64_t)(s.page >> LEAF_BITS);
	}
	return -1;
}

static bool is_root(struct tcmalloc *t, const uint8_t *data)
{
	unsigned leaves = 0;

	t->tries -= MT_MIN(t->tries, (uint64_t)ROOT_ENTRIES);
	for (int64_t i = 0; i < ROOT_ENTRIES; i++) {
		uint64_t leaf;

		memcpy(&leaf, data + i * 8, sizeof(leaf));
		if (!leaf)
			continue;
		if (leaf & 7 || !mt_heap_is_writable(t->b, leaf, LEAF_BYTES))
			return false;
		int64_t index = index_of_leaf(t, leaf);

		if (index >= 0 && index != i)
			return false;
		leaves += index == i;
	}
	return leaves > 0;
}

static void try_root(struct tcmalloc *t, const struct mt_image_segment *s, const uint8_t *data,
		     size_t bytes, size_t at)
{
	uint64_t leaf;
	int64_t index;
	size_t root;

	memcpy(&leaf, data + at, sizeof(leaf));
	if (t->root || !leaf || leaf & 7 || !mt_heap_is_writable(t->b, leaf, LEAF_BYTES))
		return;
	index = index_of_leaf(t, leaf);
	if (index < 0 || (uint64_t)index * 8 > at)
		return;
	root = at - (size_t)index * 8;
	if (root + ROOT_BYTES <= bytes && is_root(t, data + root))
		t->root = s->start + root;
}

static bool is_central(const struct tcmalloc *t, const uint8_t *data, size_t bytes)
{
	for (unsigned i = 0; i < t->classes.count; i++) {
		struct central c;

		if ((size_t)(i + 1) * CENTRAL_BYTES > bytes)
			return false;
		memcpy(&c, data + (size_t)i * CENTRAL_BYTES, sizeof(c));
		if (c.class != i || !c.empty.next || !c.empty.before || !c.others.next ||
		    !c.others.before || c.used_slots < 0 || c.used_slots > c.slots ||
		    c.slots > c.slots_max || c.slots_max > SLOTS)
			return false;
	}
	return t->classes.count > 0;
}

static void try_classes(struct tcmalloc *t, const uint8_t *data, size_t bytes)
{
	struct classes c;

	if (t->classes.count || bytes < sizeof(c) || data[1] != 1)
		return;
	memcpy(&c.count, data + offsetof(struct classes, count), sizeof(c.count));
	if (c.count < 16 || c.count > CLASSES_MAX)
		return;
	memcpy(&c, data, sizeof(c));
	if (are_classes(&c))
		t->classes = c;
}

static int find_in_segment(struct tcmalloc *t, const struct mt_image_segment *s)
{
	size_t bytes;
	mt_auto(free) uint8_t *data = mt_heap_segment_bytes(t->b->im, s, &bytes);

	if (!data)
		return -ENOMEM;
	for (size_t at = 0; at + 8 <= bytes; at += 8) {
		try_classes(t, data + at, bytes - at);
		try_root(t, s, data, bytes, at);
	}
	for (size_t at = 0; at + 8 <= bytes && !t->central; at += 8)
		if (is_central(t, data + at, bytes - at))
			t->central = s->start + at;
	return 0;
}

static int find(struct tcmalloc *t, struct mt_err *err)
{
	uint64_t caches;
	char text[8];
	int code = mt_heap_find_text(t->b->im, t->module, "gperftools 2.10", text, sizeof(text));

	if (code == -ENOMEM)
		return mt_err_no_memory(err);
	if (code || text[0] || t->b->arch != MT_IMAGE_X86_64)
		return mt_err_set(err, -ENOTSUP,
				  "'%s' is tcmalloc, but not that of gperftools 2.10 for x86-64: "
				  "the layout of its heap is not known",
				  t->module->path);
	for (uint32_t i = 0; i < t->module->segment_count; i++)
		if (t->module->segments[i].flags & MT_MAPPING_WRITE &&
		    find_in_segment(t, &t->module->segments[i]))
			return mt_err_no_memory(err);
	if (mt_image_symbol(t->b->im, t->module, caches_symbol, &caches, NULL) ||
	    mt_peek_u64(&t->b->peek, caches, &t->first_cache) || !t->root || !t->central)
		return mt_err_set(err, -ENOTSUP,
				  "nothing in '%s' is built as the %s of tcmalloc 2.10 %s",
				  t->module->path,
				  !t->classes.count ? "table of sizes"
				  : !t->root        ? "tree of spans"
				  : !t->central     ? "lists that threads share"
						    : "list of threads' caches",
				  t->root && t->classes.count && !t->central ? "are" : "is");
	memcpy(t->b->h->version, "2.10", sizeof("2.10"));
	return 0;
}

/* ---- spans ---- */

static void add_small(struct tcmalloc *t, uint64_t address, unsigned class)
{
	struct block *grown =
		mt_alloc_grow(t->blocks, &t->block_cap, t->block_count + 1, sizeof(*grown));

	if (!grown) {
		t->b->failed = true;
		return;
	}
	t->blocks = grown;
	t->blocks[t->block_count++] = (struct block){.address = address, .class = (uint8_t) class};
}

/* The small block that begins at an address and has a class, or NULL. */
static struct block *block_at(const struct tcmalloc *t, uint64_t address, unsigned class)
{
	size_t low = MT_SEARCH_BELOW(t->blocks, t->block_count, address, address);

	if (low == t->block_count || t->blocks[low].address != address ||
	    t->blocks[low].class != class)
		return NULL;
	return &t->blocks[low];
}

/*
 * Takes the blocks of a list as free: how many. What is none, or is free already, is damage, and
 * ends the list.
 */
static uint64_t take_list(struct tcmalloc *t, uint64_t place, uint64_t at, unsigned class,
			  enum block_state state)
{
	static const char *const names[] = {"", "a span", "the lists that threads share",
					    "a cache of a thread"};
	uint64_t count = 0;

	for (; at; count++) {
		struct block *k = block_at(t, at, class);

		if (!k || k->state != LIVE || mt_peek_u64(&t->b->peek, k->address, &at)) {
			mt_heap_add_damage(t->b, place,
					   "%s has 0x%" PRIx64 " as a free block of %" PRId32
					   " bytes, which is none",
					   names[state], at, t->classes.bytes[class]);
			break;
		}
		k->state = (uint8_t)state;
	}
	return count;
}

static void walk_small(struct tcmalloc *t, uint64_t at, const struct span *s)
{
	unsigned class = class_of(s);
	uint64_t start = s->page << PAGE_SHIFT, bytes = (uint64_t)t->classes.bytes[class], count,
		 free_count;

	if (class >= t->classes.count || s->pages != t->classes.pages[class]) {
		mt_heap_add_damage(t->b, at, "this span has a class of blocks that none has");
		t->b->h->skipped_bytes += s->pages << PAGE_SHIFT;
		return;
	}
	count = (s->pages << PAGE_SHIFT) / bytes;
	for (uint64_t i = 0; i < count; i++)
		add_small(t, start + i * bytes, class);
	if (t->b->failed)
		return;
	free_count = take_list(t, at, s->objects, class, IN_SPAN);
	if (free_count + refcount_of(s) != count)
		mt_heap_add_damage(t->b, at,
				   "this span counts %u of %" PRIu64
				   " blocks as given away, but has %" PRIu64 " on its list",
				   refcount_of(s), count, free_count);
}

static void walk_span(struct tcmalloc *t, uint64_t at, const struct span *s)
{
	uint64_t start = s->page << PAGE_SHIFT, bytes = s->pages << PAGE_SHIFT;

	mt_heap_add_range(t->b, start, start + bytes, 0);
	if (location_of(s) == RETURNED)
		return; /* address space alone */
	t->arena->held_bytes += bytes;
	if (location_of(s) == FREE) {
		t->arena->free_blocks++;
		t->arena->free_bytes += bytes;
		t->arena->free_page_bytes += bytes;
	} else if (class_of(s)) {
		walk_small(t, at, s);
	} else {
		mt_heap_add_live(t->b, 0, start, bytes);
		t->arena->mapped_blocks++;
		t->arena->mapped_bytes += bytes;
	}
}

/*
 * Spans follow each other; entries within one may be old. `next` is the page behind the last one.
 */
static void walk_leaf(struct tcmalloc *t, uint64_t leaf, uint64_t first_page, uint64_t *next)
{
	for (; *next - first_page < 1 << LEAF_BITS && !t->b->failed && t->tries; t->tries--) {
		uint64_t at = next_written(t, leaf, (*next - first_page) * 8), entry = 0;
		struct span s;

		*next = first_page + at / 8;
		if (at >= LEAF_BYTES)
			return;
		if (mt_peek_u64(&t->b->peek, leaf + at, &entry) || !entry) {
			++*next;
			continue;
		}
		if (read_span(t, entry, &s) || s.page != *next) {
			mt_heap_add_damage(t->b, leaf + at,
					   "what the tree has for the page at 0x%" PRIx64
					   " is not its span",
					   *next << PAGE_SHIFT);
			++*next;
			continue;
		}
		walk_span(t, entry, &s);
		*next += s.pages;
	}
}

static void walk_tree(struct tcmalloc *t)
{
	uint64_t next = 0; /* page */

	for (uint64_t i = 0; i < ROOT_ENTRIES; i++) {
		uint64_t leaf, first = i << LEAF_BITS;

		if (mt_peek_u64(&t->b->peek, t->root + 8 * i, &leaf) || !leaf ||
		    !mt_heap_is_writable(t->b, leaf, LEAF_BYTES))
			continue;
		next = MT_MAX(next, first);
		if (index_of_leaf(t, leaf) == (int64_t)i || next > first)
			walk_leaf(t, leaf, first, &next);
	}
	if (!t->tries)
		mt_heap_add_damage(t->b, t->root,
				   "the tree of spans has more than can be: the rest was not read");
}

/* ---- free blocks that spans count as given away ---- */

static void take_slots(struct tcmalloc *t)
{
	for (unsigned class = 1; class < t->classes.count; class ++) {
		uint64_t at = t->central + (uint64_t) class * CENTRAL_BYTES;
		struct central c;

		if (mt_peek(&t->b->peek, at, &c, sizeof(c)))
			continue;
		for (int32_t i = 0; i < MT_MIN(c.used_slots, (int32_t)SLOTS); i++)
			take_list(t, at, c.slot[i].head, class, IN_SLOT);
	}
}

static bool is_cache(const struct tcmalloc *t, const struct cache *c)
{
	for (unsigned i = 0; i < t->classes.count; i++)
		if (c->list[i].block_bytes != t->classes.bytes[i])
			return false;
	return true;
}

/* Where a cache holds the address of the next one: before that lies a part that builds differ in.
 */
static uint64_t next_place_of(struct tcmalloc *t)
{
	for (uint64_t at = AT_CACHE_NEXT_MIN; at < AT_CACHE_NEXT_MAX; at += 8) {
		uint64_t cache = t->first_cache, before = 0, next, back;
		unsigned n;

		for (n = 0; cache && n < CACHES_MAX; n++) {
			if (mt_peek_u64(&t->b->peek, cache + at, &next) ||
			    mt_peek_u64(&t->b->peek, cache + at + 8, &back) || back != before ||
			    next == cache)
				break;
			before = cache;
			cache = next;
		}
		if (!cache)
			return at;
	}
	return 0;
}

static int take_caches(struct tcmalloc *t, struct mt_err *err)
{
	uint64_t at = t->first_cache, place = next_place_of(t);
	struct cache c;

	for (unsigned n = 0; at && n < CACHES_MAX; n++) {
		if (!place || mt_peek(&t->b->peek, at, &c, sizeof(c)) || !is_cache(t, &c))
			return mt_err_set(
				err, -ENOTSUP,
				"the list of threads' caches of '%s' is not built as that "
				"of tcmalloc 2.10 is: freed blocks cannot be told from "
				"live ones",
				t->module->path);
		for (unsigned class = 1; class < t->classes.count; class ++) {
			uint64_t count = take_list(t, at, c.list[class].head, class, IN_CACHE);

			if (count != c.list[class].length)
				mt_heap_add_damage(
					t->b, at,
					"this cache of a thread counts %" PRIu32
					" free blocks of %" PRId32 " bytes, and has %" PRIu64,
					c.list[class].length, c.list[class].block_bytes, count);
		}
		if (mt_peek_u64(&t->b->peek, at + place, &at))
			break;
	}
	return 0;
}

/* ---- the result ---- */

/* A block's bytes are free, the whole pages among those of the blocks that follow it, too. */
static void count_free(struct tcmalloc *t, size_t first, size_t end)
{
	const uint64_t page = t->b->page_bytes;
	const struct block *last = &t->blocks[end - 1];
	uint64_t from = MT_ALIGN_UP(t->blocks[first].address, page);
	uint64_t to = MT_ALIGN_DOWN(last->address + (uint64_t)t->classes.bytes[last->class], page);

	t->arena->free_page_bytes += to > from ? to - from : 0;
	for (size_t i = first; i < end; i++) {
		uint64_t bytes = (uint64_t)t->classes.bytes[t->blocks[i].class];

		t->arena->free_blocks++;
		t->arena->free_bytes += bytes;
		if (t->blocks[i].state == IN_CACHE) {
			t->arena->cached_blocks++;
			t->arena->cached_bytes += bytes;
		}
	}
}

static void emit(struct tcmalloc *t)
{
	for (size_t i = 0; i < t->block_count;) {
		const struct block *k = &t->blocks[i];
		size_t end = i;

		if (k->state == LIVE) {
			mt_heap_add_live(t->b, 0, k->address, (uint64_t)t->classes.bytes[k->class]);
			i++;
			continue;
		}
		/* free ones without a gap */
		while (end < t->block_count && t->blocks[end].state != LIVE &&
		       (end == i ||
			t->blocks[end].address ==
				t->blocks[end - 1].address +
					(uint64_t)t->classes.bytes[t->blocks[end - 1].class]))
			end++;
		count_free(t, i, end);
		i = end;
	}
}

static int read_all(struct tcmalloc *t, struct mt_err *err)
{
	int code = find(t, err);

	if (code)
		return code;
	mt_heap_add_arena(t->b, t->central);
	if (t->b->failed)
		return mt_err_no_memory(err);
	t->arena = &t->b->h->arenas[0];
	walk_tree(t);
	take_slots(t);
	code = take_caches(t, err);
	if (code)
		return code;
	emit(t);
	return t->b->failed ? mt_err_no_memory(err) : 0;
}

int mt_heap_read_tcmalloc(struct mt_heap_build *b, const struct mt_image_module *module,
			  struct mt_err *err)
{
	struct tcmalloc *t = mt_alloc_zero(1, sizeof(*t));
	int code;

	if (!t)
		return mt_err_no_memory(err);
	t->b = b;
	t->module = module;
	t->tries = TRIES;
	mt_pagemap_open_image(&t->present, b->im);
	code = read_all(t, err);
	mt_pagemap_close(&t->present);
	free(t->blocks);
	free(t);
	return code;
}
