/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LOCK_H
#define MT_RUNTIME_LOCK_H

/*
 * A lock for rare paths that never waits without a bound: when it cannot be had, the caller drops
 * its event and counts that. Zero is "free". Never held while calling out; never taken by a nested
 * call (the per-thread guard passes those through), so a signal handler cannot wait for its own
 * thread.
 */

#include "core/sys.h"
#include "runtime/rt.h"

enum {
	MT_LOCK_SPINS = 1000,
	MT_LOCK_YIELDS = 64,
	MT_LOCK_SLEEPS = 400,
	MT_LOCK_SLEEP_NS = 50000,
	MT_LOCK_PATIENCE = 64,
	MT_FUTEX_WAIT_PRIVATE = 128
};

/* What to do in the nth round of waiting for a lock: 1 after a pause, 0 when it was long enough (20
 * to 50 ms). */
MT_INLINE int mt_lock_pause(int round)
{
	struct mt_timespec pause = {0, MT_LOCK_SLEEP_NS};
	uint32_t never = 0;
	if (round < MT_LOCK_SPINS)
		return 1;
	/* a lock whose owner never comes back (left by siglongjmp) must not slow every event for
	 * ever */
	if (mt_rt.sandboxed == MT_SANDBOX_NO_CALLS ||
	    __atomic_load_n(&mt_rt.lock_timeouts, __ATOMIC_RELAXED) >= MT_LOCK_PATIENCE)
		return 0;
	if (round < MT_LOCK_SPINS + MT_LOCK_YIELDS && !mt_rt.sandboxed)
		mt_sys_sched_yield();
	else /* the owner may be waiting for a processor: yielding to everybody else does not help
	      */
		mt_sys4(__NR_futex, &never, MT_FUTEX_WAIT_PRIVATE, 0, &pause);
	return round < MT_LOCK_SPINS + MT_LOCK_YIELDS + MT_LOCK_SLEEPS;
}

/* 1 when taken; 0 after a bounded wait (counted in lost[MT_LOST_LOCK]). */
MT_INLINE int mt_lock(uint32_t *lock)
{
	int round = 0;
	do {
		/* pairs with the release in mt_unlock */
		if (!__atomic_load_n(lock, __ATOMIC_RELAXED) &&
		    !__atomic_exchange_n(lock, 1, __ATOMIC_ACQUIRE))
			return 1;
	} while (mt_lock_pause(round++));
	__atomic_fetch_add(&mt_rt.lock_timeouts, 1, __ATOMIC_RELAXED);
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
