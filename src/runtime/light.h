/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LIGHT_H
#define MT_RUNTIME_LIGHT_H

/*
 * The light modes, statistics and sampling: every block is counted by usable size in the thread's
 * row of STATS, and a few are recorded one by one. What an ordinary malloc and free then run is
 * here, for inlining into those two hooks; everything else goes through record.c as in full mode.
 *
 * The ordinary path takes no guard: it changes counters of its own thread only, each by one
 * instruction (x86-64), so that a signal handler may come at any place.
 *
 * A free must know whether its block is recorded. The filter answers for nearly all that are not:
 * a table of small counters, by a hash of the address, of the blocks that were recorded.
 */

#include "runtime/fast.h"
#include "runtime/provider.h"

enum { MT_FILTER_BITS = 16, MT_FILTER_FULL = 255 /* a counter that stays */ };

MT_INLINE uint32_t mt_filter_slot(uint64_t address)
{
	return (uint32_t)(address >> 4) * 0x9e3779b1u >> (32 - MT_FILTER_BITS);
}

/* Adds to a counter of the calling thread. */
MT_INLINE void mt_light_add(void *counter, uint64_t by)
{
#if defined(__x86_64__)
	__asm__("addq %1, %0" : "+m"(*(uint64_t *)counter) : "er"(by) : "cc");
#else
	__atomic_store_n((uint64_t *)counter, *(uint64_t *)counter + by, __ATOMIC_RELAXED);
#endif
}

/*
 * glibc: the word before a block is its chunk's size, with flags; bit 1 tells a mapping of its own.
 */
enum { MT_CHUNK_FLAGS = 7, MT_CHUNK_MAPPED = 2, MT_CHUNK_WORD = 8 };

MT_INLINE uint64_t mt_chunk_word(const void *p)
{
	return ((const uint64_t *)p)[-1];
}

MT_INLINE uint64_t mt_chunk_usable(uint64_t word)
{
	return (word & ~(uint64_t)MT_CHUNK_FLAGS) -
	       (word & MT_CHUNK_MAPPED ? 2 * MT_CHUNK_WORD : MT_CHUNK_WORD);
}

/* Usable bytes of a live block, as the family's allocator says. */
MT_INLINE uint64_t mt_usable(enum mt_family family, const void *p)
{
	size_t (*usable)(const void *) = mt_original[family].malloc_usable_size;
	return MT_LIKELY(usable && !mt_rt.no_sizes) ? usable(p) : 0;
}

/* usable: less than 2^31, so that the last class needs no care. */
MT_INLINE struct mt_state_size_class *mt_light_class(struct mt_thread *t, uint64_t usable)
{
	uint64_t bucket = 2 * usable + 1;
#if defined(__x86_64__)
	__asm__("bsrq %0, %0" : "+r"(bucket) : : "cc"); /* a quad word at once, no sign to extend */
#else
	bucket = 63 - (uint64_t)__builtin_clzll(bucket);
#endif
	return &t->stats->size_class[bucket];
}

/* The same for any size. */
MT_INLINE struct mt_state_size_class *mt_light_any_class(const struct mt_thread *t, uint64_t usable)
{
	return &t->stats->size_class[mt_state_size_bucket(usable)];
}

/* 1: the balance has moved a step: mt_light_step() is due. */
MT_INLINE int mt_light_count_alloc(struct mt_thread *t, struct mt_state_size_class *c,
				   uint64_t usable)
{
	struct mt_state_stats *s = t->stats;
	mt_light_add(&c->allocs, 1);
	mt_light_add(&c->bytes, usable);
	mt_light_add(&s->live_bytes, usable);
	int64_t live = s->live_bytes;
	if (MT_LIKELY(live <= t->watch))
		return 0;
	if (live > s->peak_bytes)
		s->peak_bytes = live;
	t->watch = MT_MIN(s->peak_bytes, t->step_high - 1);
	return live >= t->step_high;
}

MT_INLINE int mt_light_count_free(struct mt_thread *t, struct mt_state_size_class *c,
				  uint64_t usable)
{
	struct mt_state_stats *s = t->stats;
	int64_t low = t->step_low;
	mt_light_add(&c->frees, 1);
	mt_light_add(&c->freed_bytes, usable);
	mt_light_add(&s->live_bytes, -usable);
	return s->live_bytes <= low;
}

/* The thread's settings are those of the present control word, and no fork has come between. */
MT_INLINE int mt_light_is_current(const struct mt_thread *t)
{
	/* as plain words, each one comparison: all have been read anew since the call of the hook
	 */
	return *(const uint64_t *)&mt_rt_wipe[0] && !*(const uintptr_t *)&t->depth &&
	       __atomic_load_n(&mt_rt.hdr->control, __ATOMIC_RELAXED) == t->light_control;
}

enum mt_light { MT_LIGHT_NO = 0, MT_LIGHT_DONE = 1, MT_LIGHT_STEP = 2 };

/*
 * A new block of the plain family that may be ordinary, as mt_light_is_small() says: counted, or NO
 * and nothing is changed.
 */
MT_INLINE enum mt_light mt_light_alloc(struct mt_thread *t, size_t size, uint64_t usable)
{
	int64_t left = t->sample_left - (int64_t)(size + !size);
	if (MT_UNLIKELY(left <= 0 || !mt_light_is_current(t)))
		return MT_LIGHT_NO;
	t->sample_left = left;
	return MT_UNLIKELY(mt_light_count_alloc(t, mt_light_class(t, usable), usable))
		       ? MT_LIGHT_STEP
		       : MT_LIGHT_DONE;
}

/* Sizes that need no look at the list of big blocks, and may be missed by sampling. */
MT_INLINE int mt_light_is_small(const struct mt_thread *t, size_t size)
{
	return size < t->sample_all;
}

/* 1: a block of the plain family that nobody but the counters knows. */
MT_INLINE int mt_light_may_go(const struct mt_thread *t, const void *p, uint64_t usable)
{
	return MT_LIKELY(!mt_rt.filter[mt_filter_slot((uint64_t)p)] && usable < MT_BIG_BYTES &&
			 mt_light_is_current(t));
}

/* usable: as of mt_light_class(). */
MT_INLINE enum mt_light mt_light_count_gone(struct mt_thread *t, uint64_t usable)
{
	return MT_UNLIKELY(mt_light_count_free(t, mt_light_class(t, usable), usable))
		       ? MT_LIGHT_STEP
		       : MT_LIGHT_DONE;
}

/* A block of the plain family goes. */
MT_INLINE enum mt_light mt_light_free(struct mt_thread *t, const void *p, uint64_t usable)
{
	return mt_light_may_go(t, p, usable) ? mt_light_count_gone(t, usable) : MT_LIGHT_NO;
}

/*
 * What the filter could not tell: 1 when the tables do not know the block. Where thousands of
 * samples live, a free in ten gets here. usable: below MT_LARGE_BYTES.
 */
MT_INLINE int mt_light_is_unrecorded(const void *p)
{
	const uint32_t *slot = mt_index_find((uint64_t)p);
	uint32_t r = slot ? __atomic_load_n(slot, __ATOMIC_RELAXED) & ~MT_SLOT_SAMPLED : 0;
	return !__atomic_load_n(&mt_rt.small_in_large, __ATOMIC_RELAXED) &&
	       (!r || __atomic_load_n(&mt_rt.live[r].place, __ATOMIC_RELAXED) != (uint64_t)p);
}

/* --- light.c --- */

/* Brings header.stats_live_published and its peak up to date with a row. As
 * mt_record_publish_live(). */
void mt_light_publish(struct mt_state_stats *s);

/* Sets the thread's step anew, after its row or what is published of it changed. */
MT_INLINE void mt_light_set_step(struct mt_thread *t)
{
	t->step_high = t->stats->published + MT_PEAK_STEP;
	t->step_low = t->stats->published - MT_PEAK_STEP;
	t->watch = MT_MIN(t->stats->peak_bytes, t->step_high - 1);
}

/* After MT_LIGHT_STEP. Any moment. */
void mt_light_step(struct mt_thread *t);

/*
 * A new block, guard held: counts it, and decides whether it is recorded too: the regime in which
 * it is, or 0.
 */
uint32_t mt_light_take(struct mt_thread *t, const void *p, size_t size, enum mt_state_call call);

/* Draws which of the next N allocations is recorded (mt_thread.every). */
void mt_light_next_of_every(struct mt_thread *t);

/* Likewise for a block of a custom heap, which STATS does not count. Sampling mode. */
uint32_t mt_light_take_custom(struct mt_thread *t, size_t size);

/*
 * A block that STATS may have counted is about to go: 1 and the usable bytes with which it did, or
 * 0: it was missed. Any moment, once for each block.
 */
int mt_light_going(const struct mt_thread *t, const void *p, uint64_t *ret_usable);

/* A block of so many usable bytes is gone, whoever counted it. Guard held, or a nested call. */
void mt_light_gone(struct mt_thread *t, const void *p, uint64_t usable);

/* A number that is another one (but for chance, 1 in 2^32) after each allocation of the thread. */
uint32_t mt_light_moment(const struct mt_thread *t);

/* The filter learns that a block is, or is no longer, recorded. Any thread. */
void mt_filter_add(uint64_t address);
void mt_filter_remove(uint64_t address);

/*
 * Sums up what is live by STATS, which a child is about to inherit; in a child that was not forked
 * by fork(), what its parent has by now. Without the guard.
 */
void mt_light_sum_up(void);

/* In a forked child: the calling thread's row begins with what was inherited. */
void mt_light_inherit(struct mt_thread *t);

/* Makes the filter: 0 or -ENOMEM. all: blocks are recorded already that it does not know. */
int mt_filter_make(int all);

#endif
