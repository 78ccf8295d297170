/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_INDEX_H
#define MT_RUNTIME_INDEX_H

/*
 * Address -> live record. Blocks below MT_LARGE_BYTES: a three-level page map with one 32-bit
 * record number per granule; the granule is the allocator's least spacing of blocks (in check mode
 * with guards a larger one), so one granule never holds two. No lock: the program itself orders the
 * allocation of a block before its free, and a free is recorded before the allocator may hand the
 * address out again. Everything else (large blocks, addresses from 2^48 up, custom heaps, two
 * blocks in one granule) lies in a sharded hash table.
 *
 *   address:  | top 14 bits | middle 12 bits | leaf 22 bits, in granules |
 */

#include "runtime/rt.h"

enum {
	MT_INDEX_ADDRESS_BITS = 48,
	MT_INDEX_LEAF_BITS = 22,
	MT_INDEX_MIDDLE_BITS = 12,
	MT_INDEX_TOP_BITS = MT_INDEX_ADDRESS_BITS - MT_INDEX_LEAF_BITS - MT_INDEX_MIDDLE_BITS,
};

/* The slot, made if need be; NULL: address too high or no memory. */
uint32_t *mt_index_slot_slow(uint64_t address);

/* The slot of an address if its part of the map exists, else NULL. */
MT_INLINE uint32_t *mt_index_find(uint64_t address)
{
	if (MT_UNLIKELY(address >> MT_INDEX_ADDRESS_BITS))
		return NULL;
	void **middle = __atomic_load_n(
		(void ***)&mt_rt.index_top[address >> (MT_INDEX_LEAF_BITS + MT_INDEX_MIDDLE_BITS)],
		__ATOMIC_ACQUIRE);
	if (MT_UNLIKELY(!middle))
		return NULL;
	uint32_t *leaf = __atomic_load_n((uint32_t **)&middle[address >> MT_INDEX_LEAF_BITS &
							      ((1 << MT_INDEX_MIDDLE_BITS) - 1)],
					 __ATOMIC_ACQUIRE);
	if (MT_UNLIKELY(!leaf))
		return NULL;
	return &leaf[(address & ((1u << MT_INDEX_LEAF_BITS) - 1)) >> mt_rt.index_shift];
}

MT_INLINE uint32_t *mt_index_slot(uint64_t address)
{
	uint32_t *slot = mt_index_find(address);
	return MT_LIKELY(slot != NULL) ? slot : mt_index_slot_slow(address);
}

/*
 * The slot of a sample, NULL: it belongs into the hash. The map is as large as the range of
 * addresses, however few samples lie there, so that of a bound on memory it gets a quarter.
 */
uint32_t *mt_index_slot_of_sample(uint64_t address);

/* A place in the map is about to be written: its page is in use from now on. Samples only. */
void mt_index_touch(const void *place);

/*
 * Bytes of the map that are counted in mt_rt.table_bytes, but have never been written: no memory.
 * 0 once blocks were recorded otherwise than as samples.
 */
uint64_t mt_index_untouched(void);

/* Top-level table. 0 or -ENOMEM. Start-up. */
int mt_index_init(uint32_t granule_shift);

/* Blocks turn out to lie further apart; none is entered yet. Start-up. */
void mt_index_set_granule(uint32_t shift);

/* --- the hash of large blocks --- */

/* Key of a block: the same address may be live in two heaps at once (a pool inside a malloc block).
 */
MT_INLINE uint64_t mt_index_key(uint64_t address, uint32_t heap)
{
	return address ^ (uint64_t)heap << 56;
}

/* Takes a record for a block, fills it and enters it. Record number, or 0 (full, no lock). */
uint32_t mt_large_insert(uint64_t address, uint32_t heap, uint64_t size, uint32_t cell,
			 uint32_t unit, uint32_t sequence);

/* Removes a block and gives its record back; 1 and *ret_copy as it was, or 0 when there is none. */
int mt_large_remove(uint64_t address, uint32_t heap, struct mt_state_large *ret_copy);

/* The same without removing it. */
int mt_large_find(uint64_t address, uint32_t heap, struct mt_state_large *ret_copy);

/* In a forked child, whose arena is gone: the hash is empty. */
void mt_large_forget(void);

/* Number of entries. */
uint64_t mt_large_count(void);

#endif
