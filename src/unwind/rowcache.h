/* SPDX-License-Identifier: MIT */
#ifndef MT_UNWIND_ROWCACHE_H
#define MT_UNWIND_ROWCACHE_H

/*
 * Rows by return address, for all threads of the process, without locks. An entry is one 64-bit
 * word: the address without its low 12 bits (36 bits), then the row (28 bits); the low bits are
 * told by the set, so the match is exact below 2^48. Addresses above never match and are decoded at
 * each use. The tag of an empty word belongs to the last page below 2^48, where no code can be. The
 * cache must be flushed (to a generation other than 0) before it is first used.
 */

#include "unwind/row.h"

enum { MT_ROW_SETS = 4096, MT_ROW_WAYS = 4, MT_ROW_SET_BITS = 12, MT_LINKS = 4096 };
#define MT_ROW_MISS 0xffffffffu

struct mt_row_cache {
	uint64_t generation; /* of the module list the entries belong to; atomic */
	uint64_t tickets;    /* handed out to insertions; atomic */
	uint64_t reserved[6];
	uint64_t set[MT_ROW_SETS][MT_ROW_WAYS]; /* atomic words */
	uint64_t link[MT_LINKS];                /* atomic words: see mt_row_cache_link() */
};

MT_INLINE uint32_t mt_row_cache_set(uintptr_t ra)
{
	return (uint32_t)(ra ^ ra >> MT_ROW_SET_BITS) & (MT_ROW_SETS - 1);
}

/* The row for a return address (that is, for the pc before it), or MT_ROW_MISS. */
MT_INLINE mt_row mt_row_cache_get(const struct mt_row_cache *rows, uintptr_t ra)
{
	const uint64_t *set = rows->set[mt_row_cache_set(ra)];
	uint64_t tag = ra >> MT_ROW_SET_BITS;
	for (uint32_t w = 0; w < MT_ROW_WAYS; w++) {
		uint64_t e = __atomic_load_n(&set[w], __ATOMIC_RELAXED);
		if (MT_LIKELY(e >> MT_ROW_BITS == tag))
			return (mt_row)e & ((1u << MT_ROW_BITS) - 1);
	}
	return MT_ROW_MISS;
}

/*
 * What a look at the code around an address told, 1 to 7, or 0: nothing is known. The bytes of code
 * that may go away are copied by the kernel, which is dear, and the same few addresses come again
 * and again. A word is the address (48 bits), the module list's generation (13) and the verdict;
 * generated code may have changed since, and nothing is read through what is known of it.
 */
enum { MT_LINK_TAG_BITS = 16, MT_LINK_VERDICT_BITS = 3 };

MT_INLINE uint64_t mt_link_word(uintptr_t address, uint32_t generation, uint32_t verdict)
{
	uint64_t tag = generation & ((1u << (MT_LINK_TAG_BITS - MT_LINK_VERDICT_BITS)) - 1);
	return (uint64_t)address << MT_LINK_TAG_BITS | tag << MT_LINK_VERDICT_BITS | verdict;
}

MT_INLINE uint32_t mt_row_cache_link(const struct mt_row_cache *rows, uintptr_t address,
				     uint32_t generation)
{
	uint64_t word = __atomic_load_n(&rows->link[mt_row_cache_set(address)], __ATOMIC_RELAXED);
	uint32_t verdict = (uint32_t)word & ((1u << MT_LINK_VERDICT_BITS) - 1);
	return word == mt_link_word(address, generation, verdict) ? verdict : 0;
}

MT_INLINE void mt_row_cache_learn_link(struct mt_row_cache *rows, uintptr_t address,
				       uint32_t generation, uint32_t verdict)
{
	if (!(address >> 48))
		__atomic_store_n(&rows->link[mt_row_cache_set(address)],
				 mt_link_word(address, generation, verdict), __ATOMIC_RELAXED);
}

/*
 * Decodes the row for a return address and keeps it if `list` is still the current one
 * (*current == list). Pcs outside every module are not kept.
 */
mt_row mt_row_cache_fill(struct mt_row_cache *rows, const struct mt_module_list *list,
			 const struct mt_module_list *const *current, uintptr_t ra);

/* Makes the cache empty and owned by `generation`; no-op if it already is. Any thread, any time. */
void mt_row_cache_flush(struct mt_row_cache *rows, uint32_t generation);

#endif
