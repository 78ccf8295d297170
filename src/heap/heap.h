/* SPDX-License-Identifier: MIT */
#ifndef MT_HEAP_HEAP_H
#define MT_HEAP_HEAP_H

/*
 * Heaps of other processes, read from outside: which blocks are live, and what the allocator holds
 * beside them. One reader for each allocator and layout (heap/glibc.c, heap/musl.c, ...); a layout
 * counts as known only after the structures in the image have proven it. Nothing is guessed: an
 * allocator that is not known is named and refused. One thread at a time.
 */

#include "base/cleanup.h"
#include "base/err.h"
#include "target/image.h"

struct mt_heap_block {
	uint64_t address; /* the program's pointer */
	uint64_t bytes;   /* usable, as malloc_usable_size() says */
};

/* A stretch of memory that an allocator owns: blocks, free memory and its own headers. */
struct mt_heap_range {
	uint64_t start, end;
	uint32_t arena; /* index in arenas */
};

struct mt_heap_arena {
	uint64_t address;    /* of its structure, 0: none */
	uint64_t held_bytes; /* taken from the system, and given to blocks or kept */
	uint64_t live_bytes, live_blocks;
	uint64_t free_bytes, free_blocks;     /* to be given again: bins, caches, freed slots */
	uint64_t cached_bytes, cached_blocks; /* of these: in caches of threads */
	uint64_t free_page_bytes;             /* of these: whole pages that no live block touches */
	uint64_t top_bytes;                   /* never given yet, at the end */
	uint64_t mapped_bytes, mapped_blocks; /* of the live: blocks with a mapping of their own */
	uint64_t own_bytes, own_blocks;       /* blocks that the allocator made for itself */
	bool is_left_over;                    /* of threads that have ended, without a structure */
};

/* What is wrong with a heap, and where. */
struct mt_heap_damage {
	uint64_t address;
	char text[160]; /* one sentence */
};

struct mt_heap {
	const char *allocator;        /* "glibc", "musl", ... */
	char version[48];             /* "2.36", or what is known of it */
	struct mt_heap_block *blocks; /* live; sorted by address, disjoint */
	size_t block_count;
	struct mt_heap_range *ranges; /* sorted, disjoint */
	size_t range_count;
	struct mt_heap_arena *arenas;
	size_t arena_count;
	struct mt_heap_damage *damages; /* the first 64 */
	size_t damage_count;
	uint64_t damages_in_all;
	uint64_t skipped_bytes; /* that could not be walked: damage, or memory not in the image */
};

/*
 * Finds the allocator that the program's malloc reaches, and walks it. 0; -ENOTSUP: the allocator
 * or its layout is not known, *err says which; another negative errno value with *err filled.
 */
int mt_heap_read(struct mt_image *im, struct mt_heap *ret_heap, struct mt_err *err);

/*
 * Only whose memory is whose: the ranges that the allocator has taken, kept address space with
 * them, and nothing about blocks. Also of a process that runs on, whose ranges of that moment may
 * be a few more or less. glibc's are left out: headers in its mappings tell them
 * (target/vma_kind.h). As above.
 */
int mt_heap_read_ranges(struct mt_image *im, struct mt_heap *ret_heap, struct mt_err *err);

void mt_heap_done(struct mt_heap *h); /* NULL is fine */
MT_AUTO_DEFINE_INPLACE(mt_heap, struct mt_heap, mt_heap_done)

/* All arenas together; the address is 0. */
struct mt_heap_arena mt_heap_sum(const struct mt_heap *h);

/* The block that holds an address, or NULL. */
const struct mt_heap_block *mt_heap_block_of(const struct mt_heap *h, uint64_t address);

#endif
