/* SPDX-License-Identifier: MIT */
#ifndef MT_HEAP_GLIBC_H
#define MT_HEAP_GLIBC_H

/* The parts of the reader of glibc's heap. Private to heap; docs/heaps.md describes the heap. */

#include "base/map.h"
#include "heap/build.h"

enum {
	GLIBC_FASTBINS = 10,
	GLIBC_BINS = 127,
	GLIBC_BIN_WORDS = 2 * GLIBC_BINS,
	GLIBC_TCACHE_BINS = 64,
	GLIBC_HEADER = 16, /* of a chunk: size of the one before, own size */
	GLIBC_MIN_CHUNK = 32,
	GLIBC_FENCE = 16,      /* a chunk that is a header only, behind the last one */
	GLIBC_PREV_IN_USE = 1, /* in a size word */
	GLIBC_MAPPED = 2,
	GLIBC_NOT_MAIN = 4,
	GLIBC_FLAGS = 7,
	GLIBC_NOT_CONTIGUOUS = 2, /* in glibc_state.flags */
};

/* struct malloc_state of 2.27 to 2.41, 64 bit: an arena. */
struct glibc_state {
	uint32_t mutex, flags, have_fast, pad;
	uint64_t fast[GLIBC_FASTBINS];
	uint64_t top, last_remainder;
	uint64_t bins[GLIBC_BIN_WORDS];
	uint32_t map[4];
	uint64_t next, next_free;
	uint64_t attached, system_bytes, system_bytes_max;
};
_Static_assert(sizeof(struct glibc_state) == 2200, "as struct malloc_state");

/* What differs between versions. */
struct glibc_layout {
	unsigned minor;            /* of the version 2.minor */
	unsigned heap_info_bytes;  /* in front of what a heap of a secondary arena holds */
	unsigned count_bytes;      /* of a counter in a thread's cache */
	bool is_linked_safely;     /* links of single lists are xored with their place's page */
	bool is_key_cache_address; /* the word behind the link of a cached block */
	bool is_key_random;
	unsigned at_mmaps, at_mmapped_bytes, at_sbrk_base, at_tcache; /* in struct malloc_par */
	unsigned at_huge_page;                                        /* 0: there is none */
};

/* struct malloc_par, what of it is needed. */
struct glibc_params {
	bool is_known;
	uint64_t address;
	uint64_t sbrk_base;
	uint32_t mmaps;
	uint64_t mmapped_bytes;
	uint64_t tcache_bins, tcache_count;
	uint64_t heap_bytes_max; /* of a heap of a secondary arena, and its alignment */
};

/* A chunk whose successor says that it is in use. */
struct glibc_used {
	uint64_t at;   /* of its header */
	uint64_t size; /* of the chunk */
	uint32_t arena;
	uint32_t state; /* enum glibc_free for those that are not really; GLIBC_OWN */
};

/* On which list a chunk was found. */
enum glibc_free { GLIBC_IN_USE, GLIBC_IN_BIN, GLIBC_IN_FAST, GLIBC_IN_CACHE, GLIBC_OWN };

struct glibc_arena {
	uint64_t address;
	bool is_main, is_locked;
	bool is_broken; /* some of it was skipped */
	struct glibc_state state;
	uint64_t top_bytes;
	uint64_t segment_bytes; /* walked, or skipped in them */
	uint64_t first_chunk;   /* 0: none */
};

/* A stretch of memory of a secondary arena, at a multiple of its greatest size. */
struct glibc_heap {
	uint64_t address, bytes;
	uint32_t arena;
};

/* A point of a heap that is known to be the start of a chunk. */
struct glibc_point {
	uint64_t at;
	uint32_t arena;
	uint32_t kind; /* enum glibc_free */
	bool is_seen;  /* the walk came to it */
};

struct mt_glibc {
	struct mt_heap_build *b;
	const struct mt_image_module *module;
	struct glibc_layout layout;
	uint64_t main_arena;
	struct glibc_params params;
	struct glibc_arena *arenas; /* as h->arenas */
	size_t arena_count, arena_cap;
	struct glibc_point *points; /* sorted once all lists were read */
	size_t point_count, point_cap;
	struct mt_map point_of; /* address of a chunk -> index in points + 1 */
	struct glibc_used *used;
	size_t used_count, used_cap;
	struct glibc_heap *heaps; /* of secondary arenas, by address */
	size_t heap_count, heap_cap;
	uint64_t tries; /* steps that looking for the next chunk behind damage may still take */
};

static inline uint64_t glibc_size(uint64_t word)
{
	return word & ~(uint64_t)GLIBC_FLAGS;
}

/* The address that a link of a single list means. */
static inline uint64_t glibc_link(const struct mt_glibc *g, uint64_t place, uint64_t word)
{
	return g->layout.is_linked_safely ? word ^ place >> 12 : word;
}

/* " (a thread was at work in this arena)", for damage that may be none. */
const char *glibc_locked(const struct glibc_arena *a);

/* glibc_find.c: layout of the version, main arena, parameters. 0 or negative with *err. */
int glibc_find(struct mt_glibc *g, struct mt_err *err);

/* glibc_lists.c: free chunks of bins and fast bins become points. */
void glibc_read_lists(struct mt_glibc *g, uint32_t arena);
void glibc_sort_points(struct mt_glibc *g);
/* The point at an address, or NULL. */
struct glibc_point *glibc_point_at(struct mt_glibc *g, uint64_t at);
/* The first point of an arena in [from, end), or NULL. */
const struct glibc_point *glibc_point_after(const struct mt_glibc *g, uint64_t from, uint64_t end,
					    uint32_t arena);

/* glibc_walk.c: a stretch of chunks. */
struct glibc_segment {
	uint64_t start, limit; /* no chunk reaches beyond the limit */
	uint32_t arena;
};
enum glibc_end {
	GLIBC_AT_TOP,   /* the arena's last chunk */
	GLIBC_AT_FENCE, /* the marks at the end of a stretch */
	GLIBC_AT_LIMIT, /* neither, and no more memory */
	GLIBC_BROKEN,   /* what follows is no chunk */
};
/* Walks it, filling used, counts and damage. *ret_end: behind the last byte that belongs to it. */
enum glibc_end glibc_walk(struct mt_glibc *g, const struct glibc_segment *s, uint64_t *ret_end);
/* Whether the chunks from `at` on lead to the top or to a fence, by at most g->tries steps. */
bool glibc_leads_to_end(struct mt_glibc *g, const struct glibc_segment *s, uint64_t at);

/* glibc_arenas.c: the ring of arenas, and what their heaps say. */
int glibc_find_arenas(struct mt_glibc *g);

/* glibc_segments.c: all stretches of an arena, walked; ranges. */
void glibc_walk_main(struct mt_glibc *g);
void glibc_walk_heaps(struct mt_glibc *g);

/* glibc_mapped.c: blocks with mappings of their own. */
void glibc_find_mapped(struct mt_glibc *g);

/* glibc_tcache.c: caches of threads. */
void glibc_find_caches(struct mt_glibc *g);

/* The used chunk at an address, or NULL; once used is sorted. */
struct glibc_used *glibc_used_at(const struct mt_glibc *g, uint64_t at);

#endif
