/* SPDX-License-Identifier: MIT */
/* Blocks that check mode does not know; see foreign.h. */
#include "runtime/foreign.h"

enum { PROBES = 64 };

static uint64_t slot[MT_FOREIGN_SLOTS];
static uint32_t refused;
uint16_t mt_foreign_homes[MT_FOREIGN_SLOTS];

/* The ith place where p may be kept. */
static uint64_t *place_of(const void *p, uint32_t i)
{
	return &slot[(mt_foreign_home(p) + i) % MT_FOREIGN_SLOTS];
}

/* 1: the place held `was`, and holds `is` now. */
static int change(uint64_t *place, uint64_t was, uint64_t is)
{
	return __atomic_load_n(place, __ATOMIC_RELAXED) == was &&
	       __atomic_compare_exchange_n(place, &was, is, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

void mt_foreign_add(const void *p)
{
	for (uint32_t i = 0; p && i < PROBES; i++) {
		if (change(place_of(p, i), 0, (uint64_t)p)) {
			__atomic_fetch_add(&mt_foreign_homes[mt_foreign_home(p)], 1,
					   __ATOMIC_RELAXED);
			return;
		}
	}
	if (p)
		__atomic_store_n(&refused, 1, __ATOMIC_RELAXED);
}

int mt_foreign_remove_slow(const void *p)
{
	for (uint32_t i = 0; p && i < PROBES; i++) {
		if (change(place_of(p, i), (uint64_t)p, 0)) {
			__atomic_fetch_sub(&mt_foreign_homes[mt_foreign_home(p)], 1,
					   __ATOMIC_RELAXED);
			return 1;
		}
	}
	return 0;
}

int mt_foreign_is_full(void)
{
	return (int)__atomic_load_n(&refused, __ATOMIC_RELAXED);
}
