/* SPDX-License-Identifier: MIT */
#ifndef MT_HEAP_BUILD_H
#define MT_HEAP_BUILD_H

/* What the readers of heaps share: collecting what they find. Private to heap. */

#include <stdbool.h>

#include "base/cleanup.h"
#include "heap/heap.h"
#include "heap/peek.h"

enum { MT_HEAP_DAMAGES_MAX = 64 };

struct mt_heap_build {
	struct mt_heap *h;   /* borrowed */
	struct mt_image *im; /* borrowed */
	struct mt_peek peek;
	uint64_t page_bytes; /* of im's facts, which may cost a look at the process */
	enum mt_image_arch arch;
	size_t block_cap, range_cap, arena_cap, damage_cap;
	size_t sorted_ranges; /* the first of them */
	bool failed;          /* no memory: something is missing in h */
	bool ranges_only;     /* mt_heap_read_ranges(): blocks need not be found */
};

/* 0 or -ENOMEM. h is empty then. */
int mt_heap_build_init(struct mt_heap_build *b, struct mt_image *im, struct mt_heap *h);
void mt_heap_build_done(struct mt_heap_build *b); /* h stays */
MT_AUTO_DEFINE_INPLACE(mt_heap_build, struct mt_heap_build, mt_heap_build_done)

/* Each remembers in b->failed when there was no memory. */
void mt_heap_add_block(struct mt_heap_build *b, uint64_t address, uint64_t bytes);
void mt_heap_add_range(struct mt_heap_build *b, uint64_t start, uint64_t end, uint32_t arena);
uint32_t mt_heap_add_arena(struct mt_heap_build *b, uint64_t address);
void mt_heap_add_damage(struct mt_heap_build *b, uint64_t address, const char *fmt, ...)
	MT_PRINTF(3, 4);

/* A live block of an arena, counted there too. */
void mt_heap_add_live(struct mt_heap_build *b, uint32_t arena, uint64_t address, uint64_t bytes);

/*
 * Sorts; of blocks or ranges that overlap the first stays, blocks that do are damage. 0 or -ENOMEM,
 * also when something failed before.
 */
int mt_heap_build_finish(struct mt_heap_build *b);

/*
 * The readers. 0; -ENOTSUP with *err: not this layout, or nothing proves it; another negative errno
 * value with *err. Blocks and ranges need not be sorted.
 */
int mt_heap_read_glibc(struct mt_heap_build *b, const struct mt_image_module *m,
		       struct mt_err *err);
int mt_heap_read_musl(struct mt_heap_build *b, const struct mt_image_module *m, struct mt_err *err);
int mt_heap_read_jemalloc(struct mt_heap_build *b, const struct mt_image_module *m,
			  struct mt_err *err);
int mt_heap_read_mimalloc(struct mt_heap_build *b, const struct mt_image_module *m,
			  struct mt_err *err);
int mt_heap_read_scudo(struct mt_heap_build *b, const struct mt_image_module *m,
		       struct mt_err *err);
int mt_heap_read_tcmalloc(struct mt_heap_build *b, const struct mt_image_module *m,
			  struct mt_err *err);

/*
 * A module's bytes [start, end) of one segment in a block that the caller frees; what cannot be
 * read is zero. NULL: no memory. *ret_bytes is cut to a bound.
 */
uint8_t *mt_heap_segment_bytes(struct mt_image *im, const struct mt_image_segment *s,
			       size_t *ret_bytes);

/*
 * Where a text is found in what a module cannot write: *text gets what follows it, at most
 * text_bytes - 1, up to a NUL. 0, -ENOENT or -ENOMEM.
 */
int mt_heap_find_text(struct mt_image *im, const struct mt_image_module *m, const char *what,
		      char *text, size_t text_bytes);

/* Whether [address, address + bytes) lies in mappings that can be read and written. */
bool mt_heap_is_writable(const struct mt_heap_build *b, uint64_t address, uint64_t bytes);

/* The end of the readable, writable mappings that follow each other without a gap from `address`
 * on; address itself when it lies in none. */
uint64_t mt_heap_run_end(const struct mt_heap_build *b, uint64_t address);

/* Puts the ranges of now in order. */
void mt_heap_sort_ranges(struct mt_heap_build *b);

/* The range that holds an address, of those that were there when they were last sorted; NULL. */
const struct mt_heap_range *mt_heap_range_of(const struct mt_heap_build *b, uint64_t address);

#endif
