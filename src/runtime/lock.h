/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LOCK_H
#define MT_RUNTIME_LOCK_H

/*
 * A lock for rare paths that never waits without a bound: when it cannot be had, the caller drops
 * its event and counts that. Zero is "free", else the word names the owner: a signal handler whose
 * thread has it gives up at once. Never held while calling out.
 *
 * A jump out of a signal handler may leave a lock taken, and what it guards half changed. The
 * thread's list of locks, written before a lock is taken and after it is free, names it then:
 * mt_lock_abandon() makes it unusable, and nobody waits for it.
 */

#include "core/sys.h"
#include "runtime/rt.h"
#include "runtime/self.h"

enum {
	MT_LOCK_SPINS = 1000,
	MT_LOCK_YIELDS = 64,
	MT_LOCK_SLEEPS = 400,
	MT_LOCK_SLEEP_NS = 50000,
	MT_LOCK_PATIENCE = 64,
	MT_FUTEX_WAIT_PRIVATE = 128,
	MT_LOCK_ABANDONED = 1
};

/* Never 0 or MT_LOCK_ABANDONED; the same for two threads only if their words lie 64 GiB apart. */
MT_INLINE uint32_t mt_lock_owner(void)
{
	return (uint32_t)((uintptr_t)&mt_self >> 4) | 2;
}

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

/* The calling thread's list of locks. Nested calls end before the one they interrupted goes on. */
MT_INLINE void mt_lock_note(uint32_t *lock)
{
	struct mt_thread *t = mt_thread_self();
	uint32_t n = t ? t->held_count : MT_HELD_MAX;
	if (t)
		t->held_count = n + 1;
	MT_SIGNAL_FENCE();
	if (n < MT_HELD_MAX)
		t->held[n] = lock;
	MT_SIGNAL_FENCE();
}

MT_INLINE void mt_lock_forget(void)
{
	struct mt_thread *t = mt_thread_self();
	MT_SIGNAL_FENCE();
	if (t)
		t->held_count--;
}

/* 1 when taken; 0 after a bounded wait (counted in lost[MT_LOST_LOCK]). */
MT_INLINE int mt_lock(uint32_t *lock)
{
	uint32_t owner = mt_lock_owner(), seen;
	int round = 0;
	mt_lock_note(lock);
	do {
		seen = __atomic_load_n(lock, __ATOMIC_RELAXED);
		/* pairs with the release in mt_unlock */
		if (!seen && __atomic_compare_exchange_n(lock, &seen, owner, 0, __ATOMIC_ACQUIRE,
							 __ATOMIC_RELAXED))
			return 1;
		if (seen == owner || seen == MT_LOCK_ABANDONED)
			break;
	} while (mt_lock_pause(round++));
	mt_lock_forget();
	if (seen != owner && seen != MT_LOCK_ABANDONED)
		__atomic_fetch_add(&mt_rt.lock_timeouts, 1, __ATOMIC_RELAXED);
	mt_rt_lost(MT_LOST_LOCK);
	return 0;
}

MT_INLINE void mt_unlock(uint32_t *lock)
{
	__atomic_store_n(lock, 0, __ATOMIC_RELEASE);
	mt_lock_forget();
}

/* What the thread had locked when it left the tracker by a jump stays locked for ever. */
MT_INLINE void mt_lock_abandon(struct mt_thread *t)
{
	uint32_t n = MT_MIN(t->held_count, (uint32_t)MT_HELD_MAX), owner = mt_lock_owner();
	for (uint32_t i = 0; i < n; i++)
		if (t->held[i])
			__atomic_compare_exchange_n(t->held[i], &(uint32_t){owner},
						    MT_LOCK_ABANDONED, 0, __ATOMIC_RELAXED,
						    __ATOMIC_RELAXED);
	t->held_count = 0;
}

#endif
