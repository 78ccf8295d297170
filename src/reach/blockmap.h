/* SPDX-License-Identifier: MIT */
#ifndef MT_REACH_BLOCKMAP_H
#define MT_REACH_BLOCKMAP_H

/*
 * From an address to the block that holds it, in a few loads: for each 256 bytes of address space
 * the first block there. Tables for 256 MiB each, of which only the pages in use take memory. Any
 * number of threads may look up.
 */

#include "reach/range.h"

#include <stdbool.h>

enum { MT_BLOCKMAP_NONE = UINT32_MAX, MT_BLOCKMAP_LG_GRANULE = 8, MT_BLOCKMAP_LG_TABLE = 28 };
enum { MT_BLOCKMAP_COUNTED = 4 }; /* blocks that are looked at at once */
enum { MT_BLOCKMAP_BLOCKS_MAX = 1u << 30 };

struct mt_blockmap {
	const struct mt_range *block; /* borrowed; sorted, disjoint, none empty */
	size_t count;
	uint64_t low, span; /* all blocks lie in [low, low + span) */
	uint64_t first_table;
	uint64_t tables;
	uint32_t **table; /* by address >> 28, from first_table on; NULL: no block there */
};

/* 0; -ENOMEM; -E2BIG: too many blocks; -EINVAL: they are not sorted, or not disjoint, or empty. */
int mt_blockmap_init(struct mt_blockmap *m, const struct mt_range *block, size_t count);
void mt_blockmap_done(struct mt_blockmap *m);
MT_AUTO_DEFINE_INPLACE(mt_blockmap, struct mt_blockmap, mt_blockmap_done)

/* Whether a block may be at an address. A quick no for most words that are no pointers. */
static inline bool mt_blockmap_may_be(const struct mt_blockmap *m, uint64_t address)
{
	return address - m->low < m->span;
}

/* The place of an address in its table. */
static inline uint32_t mt_blockmap_slot(uint64_t address)
{
	return (uint32_t)(address & (((uint64_t)1 << MT_BLOCKMAP_LG_TABLE) - 1)) >>
	       MT_BLOCKMAP_LG_GRANULE;
}

/* Where the answer for an address that may be lies, NULL: there is no block. For prefetching. */
static inline const uint32_t *mt_blockmap_entry(const struct mt_blockmap *m, uint64_t address)
{
	const uint32_t *t = m->table[(address >> MT_BLOCKMAP_LG_TABLE) - m->first_table];

	return t ? t + mt_blockmap_slot(address) : NULL;
}

/* The index of the block that holds an address, or MT_BLOCKMAP_NONE; entry: what lies there. */
static inline uint32_t mt_blockmap_seek(const struct mt_blockmap *m, uint32_t entry,
					uint64_t address)
{
	uint32_t i = entry - 1;

	if (!entry)
		return MT_BLOCKMAP_NONE;
	/* which of four blocks it is depends on chance: counted, as a branch would be guessed wrong
	 */
	if (i + (size_t)MT_BLOCKMAP_COUNTED <= m->count) {
		const struct mt_range *b = &m->block[i];

		i += (uint32_t)(b[0].end <= address) + (uint32_t)(b[1].end <= address) +
		     (uint32_t)(b[2].end <= address) + (uint32_t)(b[3].end <= address);
	}
	/* ends: the last block ends behind every address that may be */
	while (m->block[i].end <= address)
		i++;
	return m->block[i].start <= address ? i : (uint32_t)MT_BLOCKMAP_NONE;
}

/* The same of an address that may be. */
static inline uint32_t mt_blockmap_find(const struct mt_blockmap *m, uint64_t address)
{
	const uint32_t *entry = mt_blockmap_entry(m, address);

	return mt_blockmap_seek(m, entry ? *entry : 0, address);
}

#endif
