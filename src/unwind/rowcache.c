/* SPDX-License-Identifier: MIT */
/*
 * No row of a module that is gone may be seen. To insert, a thread first puts a ticket of its own
 * into the word, then looks whether its module list is still the current one, decodes, and swaps
 * the row in only if its ticket is still there. A flush runs after the new list was published and
 * before any thread uses the cache for it. So either the inserting thread sees the new list and
 * gives up, or its ticket was there before the flush, which then takes it away (the last swap
 * fails) or wipes the row (the last swap came first). Both sides need their two steps in one total
 * order: the fences. A late flush for an older list only empties more; it cannot give a ticket
 * back.
 */

#include "unwind/rowcache.h"

#define EMPTY_TAG (UINT64_MAX >> MT_ROW_BITS)

/* Ticket 0: nobody's. */
static uint64_t empty_word(uint64_t ticket)
{
	return EMPTY_TAG << MT_ROW_BITS | (ticket & ((1u << MT_ROW_BITS) - 1));
}

void mt_row_cache_flush(struct mt_row_cache *rows, uint32_t generation)
{
	if (__atomic_load_n(&rows->generation, __ATOMIC_ACQUIRE) == generation)
		return;
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	for (uint32_t s = 0; s < MT_ROW_SETS; s++)
		for (uint32_t w = 0; w < MT_ROW_WAYS; w++)
			__atomic_store_n(&rows->set[s][w], empty_word(0), __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < MT_LINKS; i++)
		__atomic_store_n(&rows->link[i], 0, __ATOMIC_RELAXED);
	__atomic_store_n(&rows->generation, generation, __ATOMIC_RELEASE);
}

/* The way to replace: an empty one, else one told by the address. */
static uint64_t *victim(struct mt_row_cache *rows, uintptr_t ra)
{
	uint64_t *set = rows->set[mt_row_cache_set(ra)];
	for (uint32_t w = 0; w < MT_ROW_WAYS; w++)
		if (__atomic_load_n(&set[w], __ATOMIC_RELAXED) >> MT_ROW_BITS == EMPTY_TAG)
			return &set[w];
	return &set[(ra >> 4 ^ ra >> 17) & (MT_ROW_WAYS - 1)];
}

mt_row mt_row_cache_fill(struct mt_row_cache *rows, const struct mt_module_list *list,
			 const struct mt_module_list *const *current, uintptr_t ra)
{
	const struct mt_module *m = mt_module_list_find(list, ra - 1);
	if (!m)
		return mt_row_special(MT_ROW_NOINFO);
	if (ra >> MT_ROW_SET_BITS >= EMPTY_TAG)
		return mt_row_decode(m, ra - 1);
	uint64_t *word = victim(rows, ra);
	uint64_t seen = __atomic_load_n(word, __ATOMIC_RELAXED);
	uint64_t mine = empty_word(__atomic_add_fetch(&rows->tickets, 1, __ATOMIC_RELAXED));
	int reserved = __atomic_compare_exchange_n(word, &seen, mine, 0, __ATOMIC_SEQ_CST,
						   __ATOMIC_RELAXED);
	__atomic_thread_fence(__ATOMIC_SEQ_CST);
	reserved = reserved && __atomic_load_n(current, __ATOMIC_ACQUIRE) == list;
	mt_row row = mt_row_decode(m, ra - 1);
	if (reserved)
		__atomic_compare_exchange_n(word, &mine,
					    (uint64_t)(ra >> MT_ROW_SET_BITS) << MT_ROW_BITS | row,
					    0, __ATOMIC_RELEASE, __ATOMIC_RELAXED);
	return row;
}
