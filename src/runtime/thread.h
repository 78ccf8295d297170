/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_THREAD_H
#define MT_RUNTIME_THREAD_H

/*
 * Per-thread state: made at a thread's first event, found again after the thread's death without
 * any exit hook (the kernel is asked whether the owner still exists when a new thread needs one).
 */

#include "runtime/rt.h"
#include "runtime/self.h"

/* State for the calling thread, or NULL: no memory or no row (counted). Depth is 0. Signals are
 * blocked, unless a sandbox forbids it. */
struct mt_thread *mt_thread_make(void);

/* Of a struct mt_thread: its last member is only there if it is used. */
size_t mt_thread_bytes(void);

/* The hook that held the guard was left by a jump: forgets what it may have left half done. */
void mt_thread_renew(struct mt_thread *t);

/*
 * 1 when no other thread can still hold a module list of this generation: each is outside the
 * tracker, or has captured with a newer one.
 */
int mt_threads_are_past(uint32_t generation);

/* In a forked child: no thread is known. */
void mt_threads_forget(void);

/* Housekeeping when until_tick says so, and at rare events: coarse clock, memo, counts. */
void mt_thread_tick(struct mt_thread *t);

/* An event that is not on an ordinary path: the clock is read when that is due. Guard held. */
MT_INLINE void mt_thread_event(struct mt_thread *t)
{
	if (!t->until_tick || !--t->until_tick)
		mt_thread_tick(t);
}

/* Brings the coarse time up to date. Any thread, any moment while the tracker is on. */
void mt_thread_read_clock(void);

/* Copies the capture's counters into the thread's row. Owner thread. */
void mt_thread_publish_counts(struct mt_thread *t);

#endif
