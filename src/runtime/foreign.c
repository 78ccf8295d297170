/* SPDX-License-Identifier: MIT */
/* Blocks that check mode does not know; see foreign.h. */
#include "runtime/foreign.h"

enum { SLOTS = 4096, PROBES = 64 };

static uint64_t slot[SLOTS];
static uint32_t refused;
uint32_t mt_foreign_count;

static uint32_t slot_of(uint64_t p, uint32_t probe)
{
	return (((uint32_t)(p >> 4) * 0x9e3779b1u >> 20) + probe) & (SLOTS - 1);
}

void mt_foreign_add(const void *p)
{
	for (uint32_t i = 0; p && i < PROBES; i++) {
		uint64_t none = 0;
		if (__atomic_compare_exchange_n(&slot[slot_of((uint64_t)p, i)], &none, (uint64_t)p,
						0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			__atomic_fetch_add(&mt_foreign_count, 1, __ATOMIC_RELAXED);
			return;
		}
	}
	if (p)
		__atomic_store_n(&refused, 1, __ATOMIC_RELAXED);
}

int mt_foreign_remove_slow(const void *p)
{
	if (!p)
		return 0;
	for (uint32_t i = 0; i < PROBES; i++) {
		uint64_t wanted = (uint64_t)p;
		if (__atomic_compare_exchange_n(&slot[slot_of((uint64_t)p, i)], &wanted, 0, 0,
						__ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
			__atomic_fetch_sub(&mt_foreign_count, 1, __ATOMIC_RELAXED);
			return 1;
		}
	}
	return 0;
}

int mt_foreign_is_full(void)
{
	return (int)__atomic_load_n(&refused, __ATOMIC_RELAXED);
}
