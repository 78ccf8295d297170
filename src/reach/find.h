/* SPDX-License-Identifier: MIT */
#ifndef MT_REACH_FIND_H
#define MT_REACH_FIND_H

/* The lost blocks of a process or a core file: image, blocks and roots together. */

#include "heap/heap.h"
#include "reach/fold.h"
#include "reach/roots.h"

/* A live block that somebody else knows of: the tracker's table. */
struct mt_known {
	uint64_t address, bytes; /* as the program asked */
	uint64_t stack;          /* equal ones were made by equal call stacks; 0: not known */
	uint64_t tag;            /* the caller's own */
	/*
	 * It is live in the image for certain. Others were made or freed while the image was: they
	 * hold what they point to, and are never lost.
	 */
	bool is_sure;
	bool is_loaders; /* made by the loader: held, whatever points to it */
};

struct mt_find_input {
	const struct mt_known *known; /* sorted by address */
	size_t knowns;
	/* known has all live blocks; else the blocks come from the heap, and stacks from known */
	bool is_table;
	const struct mt_range *own; /* the tracker's private memory */
	size_t owns;
	uint32_t flags;   /* enum mt_mark_flags */
	uint32_t threads; /* as in mt_mark_input */
	bool is_strict;
};

struct mt_find {
	/* the blocks; arrays are owned and by block */
	struct mt_range *block;
	uint64_t *bytes; /* asked for; usable when they come from the heap */
	uint64_t *stack;
	size_t blocks;
	uint64_t block_bytes;
	/* the walk of the heap */
	struct mt_heap heap; /* empty when has_heap is not set */
	bool has_heap;
	struct mt_err why_no_heap;
	/* of a table */
	uint64_t stale_count;   /* left out: free, or another block, by the heap */
	uint64_t unknown_count; /* in use in the heap, and in no table: they count as roots */
	/* what was found */
	struct mt_roots roots;
	struct mt_mark mark;
	struct mt_fold fold;
	uint64_t heap_ns;
	uint64_t absent_bytes;                       /* never touched, or given back: not scanned */
	uint64_t left_out_bytes;                     /* mappings too large to be scanned */
	uint64_t inside_count, inside_bytes;         /* reachable through interior pointers only */
	uint64_t suppressed_count, suppressed_bytes; /* by mt_find_suppress() */
};

/* NULL is fine. */
void mt_find_done(struct mt_find *f);
MT_AUTO_DEFINE_INPLACE(mt_find, struct mt_find, mt_find_done)

/*
 * 0. -ENOTSUP: without a table the allocator must be known, and is not; or another negative errno
 * value; with *err.
 */
int mt_find_run(struct mt_image *im, const struct mt_find_input *in, struct mt_find *ret_find,
		struct mt_err *err);

/*
 * Lost blocks of call stacks that is_suppressed() says true of are not to be told, nor what hangs
 * on them alone: they become reachable, and fold is made anew. Asked once for each call stack that
 * is known. 0 or -ENOMEM.
 */
int mt_find_suppress(struct mt_find *f, bool (*is_suppressed)(void *context, uint64_t stack),
		     void *context);

#endif
