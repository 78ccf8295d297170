/* SPDX-License-Identifier: MIT */
#ifndef MT_REACH_SCAN_H
#define MT_REACH_SCAN_H

/* Reads memory and notes which blocks the words in it point to. Private to reach. */

#include "reach/blockmap.h"
#include "reach/mark.h"

enum {
	MT_SCAN_PIECE_BYTES = 4 << 20,
	MT_SCAN_PIECE_RANGES = 1 << 16,
	MT_SCAN_WINDOW_BYTES = 256 << 10, /* stays in the cache while it is looked at */
	MT_SCAN_GAP_BYTES = 4096,         /* between ranges that are read at once */
};
#define MT_SCAN_INSIDE (1u << 31) /* in an edge: the pointer is to no start */

/*
 * What one thread scans at a time: consecutive ranges, of the first and the last perhaps only a
 * part. Ranges of one kind, blocks or roots, are cut into pieces in order.
 */
struct mt_mark_piece {
	const struct mt_range *range; /* borrowed */
	uint32_t ranges;
	bool is_blocks;
	bool is_unaligned; /* words may begin at any address */
	uint32_t first;    /* index of range[0] among the blocks */
	uint64_t from, to; /* in range[0], and the end in the last one */
	uint32_t *edge;    /* owned: blocks pointed to, by range; MT_SCAN_INSIDE may be set */
	uint32_t *end;     /* owned, of blocks only: where each range's edges end */
	size_t edges, capacity;
	uint64_t scanned_bytes, skipped_bytes;
};

struct mt_scan {
	const struct mt_mark_input *in; /* borrowed */
	struct mt_blockmap map;
	struct mt_mark_piece *piece; /* owned: roots', then blocks' */
	size_t pieces, capacity;
};

void mt_scan_done(struct mt_scan *s);
MT_AUTO_DEFINE_INPLACE(mt_scan, struct mt_scan, mt_scan_done)

/* Scans all roots and blocks of in. As mt_mark_run(). */
int mt_scan_run(struct mt_scan *ret_scan, const struct mt_mark_input *in, struct mt_err *err);

/*
 * What a word points to: an edge, or MT_BLOCKMAP_NONE. Flags that the input does not have count
 * for nothing.
 */
uint32_t mt_scan_word(const struct mt_blockmap *m, uint64_t word, uint32_t flags);

#endif
