/* SPDX-License-Identifier: MIT */
/*
 * Caches of threads. A cached block is in use as far as headers tell, and so is the block with the
 * heads of a thread's lists. That block is known by its content, lists of chunks of the right sizes
 * and lengths, and by each thread having its address in the same place of its thread-local memory.
 */

#include "heap/glibc.h"

#include "base/alloc.h"
#include "base/search.h"

#include <inttypes.h>
#include <string.h>

enum { TLS_BYTES_MAX = 64 << 10, CACHES_MAX = 1 << 16 };

enum proof { CACHE_NONE, CACHE_EMPTY, CACHE_PROVEN };

struct cache {
	uint64_t address; /* as the program sees it */
	enum proof proof;
	bool is_taken;
};

struct caches {
	struct mt_glibc *g;
	struct cache *item; /* sorted */
	size_t count, cap;
};

struct heads {
	unsigned count[GLIBC_TCACHE_BINS];
	uint64_t entry[GLIBC_TCACHE_BINS];
};

struct glibc_used *glibc_used_at(const struct mt_glibc *g, uint64_t at)
{
	size_t low = MT_SEARCH_BELOW(g->used, g->used_count, at, at);

	return low < g->used_count && g->used[low].at == at ? &g->used[low] : NULL;
}

static size_t heads_bytes(const struct mt_glibc *g)
{
	return GLIBC_TCACHE_BINS * (g->layout.count_bytes + 8u);
}

static int read_heads(struct mt_glibc *g, uint64_t address, struct heads *h)
{
	uint8_t raw[GLIBC_TCACHE_BINS * 10];
	const unsigned width = g->layout.count_bytes;

	if (mt_peek(&g->b->peek, address, raw, heads_bytes(g)))
		return -1;
	for (unsigned i = 0; i < GLIBC_TCACHE_BINS; i++) {
		uint16_t wide;

		memcpy(&wide, raw + (size_t)2 * i, sizeof(wide));
		h->count[i] = width == 2 ? wide : raw[i];
	}
	memcpy(h->entry, raw + (size_t)width * GLIBC_TCACHE_BINS, sizeof(h->entry));
	return 0;
}

/* The chunk of a cached block of a bin, or NULL when the address is none's. */
static struct glibc_used *cached_chunk(struct mt_glibc *g, uint64_t address, unsigned bin)
{
	struct glibc_used *u = glibc_used_at(g, address - GLIBC_HEADER);

	return u && u->size == GLIBC_MIN_CHUNK + 16 * bin && u->state != GLIBC_IN_FAST ? u : NULL;
}

/*
 * Follows a list as long as its blocks are chunks in use: their number. *ret_is_whole: it ended as
 * lists do. With `mark` they become cached ones.
 */
static unsigned follow(struct mt_glibc *g, uint64_t at, unsigned bin, bool mark, bool *ret_is_whole)
{
	unsigned count = 0;

	*ret_is_whole = true;
	while (at && count <= UINT16_MAX) {
		struct glibc_used *u = cached_chunk(g, at, bin);
		uint64_t link;

		if (!u || mt_peek_u64(&g->b->peek, at, &link) || (mark && u->state != GLIBC_IN_USE))
			break;
		if (mark)
			u->state = GLIBC_IN_CACHE;
		count++;
		at = glibc_link(g, at, link);
	}
	*ret_is_whole = !at;
	return count;
}

/* Keys of the first blocks of all lists are one word: *key, 0 until the first. */
static bool has_key(struct mt_glibc *g, uint64_t block, uint64_t cache, uint64_t *key)
{
	uint64_t word;

	if (mt_peek_u64(&g->b->peek, block + 8, &word))
		return false;
	if (g->layout.is_key_cache_address)
		return word == cache;
	if (!g->layout.is_key_random)
		return true;
	if (!*key)
		*key = word;
	return word && word == *key;
}

/* A thread may be between the two writes that change a list: one list may be off by one. */
static enum proof prove(struct mt_glibc *g, uint64_t address)
{
	struct heads h;
	unsigned off = 0, lists = 0;
	uint64_t key = 0;

	if (read_heads(g, address, &h))
		return CACHE_NONE;
	for (unsigned i = 0; i < GLIBC_TCACHE_BINS; i++) {
		unsigned length;
		bool is_whole;

		if (!h.count[i] && !h.entry[i])
			continue;
		if (h.count[i] > MT_MAX(g->params.tcache_count, 1u))
			return CACHE_NONE;
		length = follow(g, h.entry[i], i, false, &is_whole);
		if (!is_whole || length + 1 < h.count[i] || length > h.count[i] + 1)
			return CACHE_NONE;
		if (length && !has_key(g, h.entry[i], address, &key))
			return CACHE_NONE;
		off += length != h.count[i];
		lists += length > 0;
	}
	if (off > 1)
		return CACHE_NONE;
	return lists ? CACHE_PROVEN : CACHE_EMPTY;
}

static int collect(struct caches *c)
{
	struct mt_glibc *g = c->g;
	const uint64_t size = MT_ALIGN_UP(heads_bytes(g) + 8, (size_t)16);

	for (size_t i = 0; i < g->used_count; i++) {
		const struct glibc_used *u = &g->used[i];
		struct cache *grown;

		/* 16 bytes that were left over are no chunk, and stay with it */
		if ((u->size != size && u->size != size + 16) || u->state != GLIBC_IN_USE)
			continue;
		grown = mt_alloc_grow(c->item, &c->cap, c->count + 1, sizeof(*grown));
		if (!grown)
			return -1;
		c->item = grown;
		c->item[c->count++] = (struct cache){
			.address = u->at + GLIBC_HEADER,
			.proof = prove(g, u->at + GLIBC_HEADER),
		};
	}
	return 0;
}

static struct cache *cache_at(const struct caches *c, uint64_t address)
{
	size_t low = MT_SEARCH_BELOW(c->item, c->count, address, address);

	return low < c->count && c->item[low].address == address ? &c->item[low] : NULL;
}

/* ---- by thread-local memory ---- */

/* Where word i of a thread's static thread-local memory lies: before or behind the pointer. */
static uint64_t tls_word(const struct mt_glibc *g, const struct mt_image_thread *t, unsigned i)
{
	if (g->b->arch == MT_IMAGE_AARCH64)
		return t->thread_pointer + 8ull * i;
	return t->thread_pointer - 8ull * (i + 1);
}

/* How many threads have a cache in word i; 0 also when two have the same, or one something else. */
static size_t threads_agree(const struct caches *c, const struct mt_image_thread *threads,
			    size_t count, unsigned i, bool *ret_has_lists)
{
	size_t found = 0;
	bool has_lists = false;
	uint64_t last = 0;

	for (size_t k = 0; k < count; k++) {
		const struct cache *cache;
		uint64_t word;

		if (!threads[k].thread_pointer)
			continue;
		if (mt_peek_u64(&c->g->b->peek, tls_word(c->g, &threads[k], i), &word))
			return 0;
		if (!word)
			continue;
		cache = cache_at(c, word);
		if (!cache || word == last)
			return 0;
		last = word;
		has_lists |= cache->proof == CACHE_PROVEN;
		found++;
	}
	*ret_has_lists = has_lists;
	return found;
}

/* How many words of static thread-local memory a thread can have: the sum of what modules need. */
static unsigned tls_words(struct mt_glibc *g)
{
	uint64_t bytes = 512;
	size_t count;
	const struct mt_image_module *m = mt_image_modules(g->b->im, &count);

	for (size_t i = 0; i < count; i++)
		bytes += MT_MIN(m[i].tls_bytes, (uint64_t)TLS_BYTES_MAX) +
			 MT_MIN(m[i].tls_align, (uint64_t)4096);
	return (unsigned)(MT_MIN(bytes, (uint64_t)TLS_BYTES_MAX) / 8);
}

/* The word that most threads have a cache in; -1: there is none. */
static long find_word(const struct caches *c, const struct mt_image_thread *threads, size_t count)
{
	const unsigned words = tls_words(c->g);
	size_t best = 0;
	long word = -1;

	for (unsigned i = 0; i < words; i++) {
		bool has_lists = false;
		size_t found = threads_agree(c, threads, count, i, &has_lists);

		/* lists prove more than any number of empty ones */
		found = found ? 2 * found + has_lists : 0;
		if (found > best) {
			best = found;
			word = (long)i;
		}
	}
	return word;
}

static void take_cache(struct mt_glibc *g, struct cache *c)
{
	struct glibc_used *u = glibc_used_at(g, c->address - GLIBC_HEADER);
	struct heads h;

	if (c->is_taken || !u || u->state != GLIBC_IN_USE || read_heads(g, c->address, &h))
		return;
	c->is_taken = true;
	u->state = GLIBC_OWN;
	for (unsigned i = 0; i < GLIBC_TCACHE_BINS; i++) {
		bool is_whole;

		follow(g, h.entry[i], i, true, &is_whole);
		if (!is_whole)
			mt_heap_add_damage(g->b, c->address,
					   "the list of blocks of %u bytes in this cache of a "
					   "thread breaks off",
					   GLIBC_MIN_CHUNK + 16 * i - 8);
	}
}

static void take_by_threads(struct caches *c, const struct mt_image_thread *threads, size_t count,
			    long word)
{
	for (size_t k = 0; k < count; k++) {
		struct cache *cache;
		uint64_t address;

		if (!threads[k].thread_pointer ||
		    mt_peek_u64(&c->g->b->peek, tls_word(c->g, &threads[k], (unsigned)word),
				&address))
			continue;
		cache = cache_at(c, address);
		if (cache)
			take_cache(c->g, cache);
	}
}

/* The first block of an arena is the cache of the thread that it was made for. */
static bool is_first_of_arena(const struct mt_glibc *g, uint64_t address)
{
	for (size_t i = 0; i < g->arena_count; i++)
		if (g->arenas[i].first_chunk == address - GLIBC_HEADER)
			return true;
	return false;
}

void glibc_find_caches(struct mt_glibc *g)
{
	struct caches c = {.g = g};
	size_t count;
	const struct mt_image_thread *threads = mt_image_threads(g->b->im, &count);
	long word;

	if (collect(&c))
		g->b->failed = true;
	word = find_word(&c, threads, count);
	if (word >= 0)
		take_by_threads(&c, threads, count, word);
	for (size_t i = 0; i < c.count; i++)
		if (c.item[i].proof == CACHE_PROVEN ||
		    (c.item[i].proof == CACHE_EMPTY && word < 0 &&
		     is_first_of_arena(g, c.item[i].address)))
			take_cache(g, &c.item[i]);
	free(c.item);
}
