/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LOCK_H
#define MT_RUNTIME_LOCK_H

/*
 * A lock for rare paths that never waits without a bound: when it cannot be had, the caller drops its
 * event and counts that. Zero is "free". Never held while calling out; never taken by a nested call
 * (the per-thread guard passes those through), so a signal handler cannot wait for its own thread.
 */

#include "core/sys.h"
#include "runtime/rt.h"

enum { MT_LOCK_SPINS = 200000 };

/* 1 when taken; 0 after a bounded wait (counted in lost[MT_LOST_LOCK]). */
MT_INLINE int mt_lock(uint32_t *lock)
{
	for (int i = 0; i < MT_LOCK_SPINS; i++) {
		/* pairs with the release in mt_unlock */
		if (!__atomic_load_n(lock, __ATOMIC_RELAXED) &&
		    !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
			return 1;
		if (i % 32 == 31)
			mt_sys_sched_yield();
	}
	mt_rt_lost(MT_LOST_LOCK);
	return 0;
}

/* 1 when taken at once. */
MT_INLINE int mt_trylock(uint32_t *lock)
{
	return !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE);
}

MT_INLINE void mt_unlock(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
}

#endif
