/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_CLAIM_H
#define MT_RUNTIME_CHECK_CLAIM_H

/*
 * Blocks that threads are just taking out of the table, by address. A second thread that frees the
 * same block waits, and then does not find it: the table's own ways only serve programs that free a
 * block once. Two blocks in one place: the later one goes without.
 */

#include "runtime/lock.h"

enum { MT_CLAIMS = 512 };
extern uint64_t mt_check_claims[MT_CLAIMS] MT_HIDDEN;

/* The place where p is claimed, for mt_check_unclaim(); NULL: none, or none is needed. */
MT_INLINE uint64_t *mt_check_claim(const void *p)
{
	uint64_t *place = &mt_check_claims[((uint64_t)p >> 4) % MT_CLAIMS], seen = 0;
	if (MT_LIKELY(MT_PEEK(&mt_rt.single)))
		return NULL;
	for (int round = 0; !__atomic_compare_exchange_n(place, &seen, (uint64_t)p, 0,
							 __ATOMIC_ACQUIRE, __ATOMIC_RELAXED);
	     seen = 0) {
		if (seen != (uint64_t)p)
			return NULL;
		if (!mt_lock_pause(round++)) /* left by a jump out of a signal handler */
			__atomic_store_n(place, 0, __ATOMIC_RELAXED);
	}
	return place;
}

MT_INLINE void mt_check_unclaim(uint64_t *place)
{
	if (MT_UNLIKELY(place != NULL))
		__atomic_store_n(place, 0, __ATOMIC_RELEASE);
}

#endif
