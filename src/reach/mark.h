/* SPDX-License-Identifier: MIT */
#ifndef MT_REACH_MARK_H
#define MT_REACH_MARK_H

/*
 * Conservative marking on plain data: blocks, ranges of memory where pointers may be, values that
 * are pointers, and a function that reads memory. All memory of blocks is read once, in order of
 * addresses and in large pieces, into lists of which block points to which; marking and all later
 * questions work on these lists and read nothing.
 */

#include "base/err.h"
#include "reach/range.h"

#include <stdbool.h>

/* Copies bytes: how many, from the first on, could be read. Threads call it at the same time. */
typedef size_t mt_mark_read(void *context, uint64_t address, void *to, size_t bytes);

enum mt_mark_flags {
	MT_MARK_INTERIOR = 1,  /* pointers into a block hold it, too */
	MT_MARK_TOP_BYTE = 2,  /* the top byte of a pointer may hold something else */
	MT_MARK_LOW_BITS = 4,  /* so may the low three bits of a pointer to a start */
	MT_MARK_UNALIGNED = 8, /* pointers may lie at any address */
};

struct mt_mark_input {
	const struct mt_range *block; /* sorted, disjoint; one of no bytes is given as one byte */
	size_t blocks;
	const struct mt_range *root; /* where pointers may be; not in blocks */
	size_t roots;
	const struct mt_range *code; /* the same, but pointers may lie at any address there */
	size_t codes;
	const uint64_t *value; /* words that may be pointers, of registers say */
	size_t values;
	const uint32_t *held; /* blocks that are reachable whatever points to them */
	size_t held_count;
	uint32_t flags;   /* enum mt_mark_flags */
	uint32_t threads; /* 0: one a processor, at most 4 */
	mt_mark_read *read;
	void *context;
};

enum mt_mark_state {
	MT_MARK_LOST = 0,
	MT_MARK_INSIDE = 1,  /* reachable, but on each way there is a pointer into a block */
	MT_MARK_REACHED = 2, /* by pointers to starts alone */
};

struct mt_mark_piece;
struct mt_mark {
	uint8_t *state; /* by block: enum mt_mark_state */
	size_t blocks;
	uint64_t block_bytes, root_bytes; /* that were read */
	uint64_t skipped_bytes;           /* of both: could not be read */
	uint64_t pointers;                /* from block to block that were found */
	uint64_t scan_ns, mark_ns;
	/* private */
	struct mt_mark_piece *piece;
	size_t pieces;
	uint32_t *work[2]; /* room for all blocks each */
};

/* NULL is fine. */
void mt_mark_done(struct mt_mark *m);
MT_AUTO_DEFINE_INPLACE(mt_mark, struct mt_mark, mt_mark_done)

/*
 * Marks. 0; -ENOMEM, -E2BIG, -EINVAL (blocks not sorted and disjoint), -EAGAIN (no thread) with
 * *err. Release with mt_mark_done() after 0. Deterministic but for the times.
 */
int mt_mark_run(const struct mt_mark_input *in, struct mt_mark *ret_mark, struct mt_err *err);

/* Marks on from more blocks that are held. */
void mt_mark_hold(struct mt_mark *m, const uint32_t *held, size_t count);

/* Walks over the blocks that a block points to; a block may come more than once. */
struct mt_mark_cursor {
	const struct mt_mark *mark;
	uint32_t block;
	uint32_t at, end; /* in the present piece */
	size_t piece;
};
void mt_mark_edges(const struct mt_mark *m, uint32_t block, struct mt_mark_cursor *ret_cursor);
bool mt_mark_next(struct mt_mark_cursor *c, uint32_t *ret_block, bool *ret_inside);

#endif
