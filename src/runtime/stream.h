/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_STREAM_H
#define MT_RUNTIME_STREAM_H

/*
 * Recording mode's encoder: one or two bytes an event into the thread's open buffer
 * (docs/formats/mtr.md). Callers hold the thread's guard and call in the order of the events, each
 * after (allocation) or with (free) the tables. No lock, no system call but when a buffer is full.
 */

#include "runtime/rt.h"
#include "wire/stream.h"

/*
 * Recording mode begins: takes the region's first element, once in a process. 0 or a negative errno
 * value. Caller holds control_lock, or nobody else is there yet.
 */
int mt_stream_start(void);

/* In a forked child: nothing was begun. */
void mt_stream_forget(void);

/*
 * The thread state has a new owner, and perhaps another row: what it had open is full. fresh: it
 * has not been used in this process.
 */
void mt_stream_new_owner(struct mt_thread *t, int fresh);

/* An event may have been left half done: the next one begins a buffer. */
void mt_stream_renew(struct mt_thread *t);

/* The halves of the two below that are not ordinary. */
void mt_stream_alloc_slow(struct mt_thread *t, uint32_t cell, uint64_t size, uint32_t unit);
void mt_stream_free_slow(struct mt_thread *t, uint32_t cell, uint32_t sequence, uint32_t unit);

MT_INLINE uint8_t *mt_stream_varint(uint8_t *at, uint64_t v)
{
	for (; v >= 128; v >>= 7)
		*at++ = (uint8_t)(v | 128);
	*at++ = (uint8_t)v;
	return at;
}

/* The bytes of the open buffer up to `used` are an event or several, complete. */
MT_INLINE void mt_stream_publish(struct mt_stream *s, struct mt_stream_buffer *b, uint32_t used)
{
	s->used = used;
	/* pairs with the acquire in the reader of an open buffer */
	__atomic_store_n(&b->head.stored_bytes, used, __ATOMIC_RELEASE);
}

/* The next event goes the slow way: something is to be said before it. */
MT_INLINE void mt_stream_go_slow(struct mt_thread *t)
{
	t->stream.end = 0;
}

/* Of the same thread. */
MT_INLINE struct mt_stream_slots *mt_stream_slots(struct mt_stream *s)
{
	return (struct mt_stream_slots *)((char *)s + offsetof(struct mt_thread, stream_slots) -
					  offsetof(struct mt_thread, stream));
}

/* The event of an allocation that is in no near slot; it comes into one. Its bytes. */
MT_INLINE uint32_t mt_stream_put_unknown(struct mt_stream *s, uint8_t *at, uint64_t key,
					 uint64_t hash)
{
	uint32_t far = mt_stream_far(hash), cell = (uint32_t)(key >> 32);
	struct mt_stream_slots *slots = mt_stream_slots(s);
	slots->near[mt_stream_near(hash)] = key;
	if (slots->far[far] == key) {
		at[0] = (uint8_t)(MT_CODE_KNOWN2 + (far >> 8));
		at[1] = (uint8_t)far;
		return 2;
	}
	slots->far[far] = key;
	at[0] = MT_CODE_ALLOC;
	uint8_t *end = mt_stream_varint(at + 1, cell == s->highest + 1 ? 0 : cell);
	s->highest = MT_MAX(s->highest, cell);
	return (uint32_t)(mt_stream_varint(end, key & UINT32_MAX) - at);
}

/* The event itself; there is room for it, and nothing stands in between. */
MT_INLINE void mt_stream_put_alloc(struct mt_stream *s, uint32_t cell, uint32_t size)
{
	struct mt_stream_buffer *b = s->buffer;
	uint32_t used = s->used;
	uint8_t *at = &b->code[used];
	uint64_t key = (uint64_t)cell << 32 | size, hash = mt_stream_hash(key);
	uint32_t near = mt_stream_near(hash);
	s->sequence++;
	if (MT_LIKELY(mt_stream_slots(s)->near[near] == key)) {
		*at = (uint8_t)near;
		used++;
	} else {
		used += mt_stream_put_unknown(s, at, key, hash);
	}
	mt_stream_publish(s, b, used);
}

/*
 * A block of less than 4 GiB was recorded: its cell (not 0: blocks without one are not in the
 * stream), and the time. Its thread's count of allocations is one more than at the last call, or
 * mt_stream_go_slow() was called in between.
 */
MT_INLINE void mt_stream_alloc(struct mt_thread *t, uint32_t cell, uint32_t size, uint32_t unit)
{
	struct mt_stream *s = &t->stream;
	if (MT_UNLIKELY(s->used >= s->end || unit != s->unit))
		mt_stream_alloc_slow(t, cell, size, unit);
	else
		mt_stream_put_alloc(s, cell, size);
}

/* A block of this thread (its cell's) goes. */
MT_INLINE void mt_stream_free_own(struct mt_thread *t, uint32_t cell, uint32_t sequence,
				  uint32_t unit)
{
	struct mt_stream *s = &t->stream;
	uint32_t used = s->used, back = s->sequence - sequence;
	struct mt_stream_buffer *b = s->buffer;
	if (MT_UNLIKELY(used >= s->end || unit != s->unit || back >= MT_STREAM_MIDDLE)) {
		mt_stream_free_slow(t, cell, sequence, unit);
	} else if (MT_LIKELY(back < MT_STREAM_NEAR)) {
		b->code[used] = (uint8_t)(MT_CODE_FREE + back);
		mt_stream_publish(s, b, used + 1);
	} else {
		back -= MT_STREAM_NEAR;
		b->code[used] = (uint8_t)(MT_CODE_FREE2 + (back >> 8));
		b->code[used + 1] = (uint8_t)back;
		mt_stream_publish(s, b, used + 2);
	}
}

/* A block of any thread goes. */
MT_INLINE void mt_stream_free(struct mt_thread *t, uint32_t cell, uint32_t sequence)
{
	uint32_t unit = (uint32_t)__atomic_load_n(&mt_rt.hdr->now_unit, __ATOMIC_RELAXED);
	if (mt_rt.cells[cell].thread == t->number)
		mt_stream_free_own(t, cell, sequence, unit);
	else
		mt_stream_free_slow(t, cell, sequence, unit);
}

/* The block freed last becomes the next allocation, if that is recorded before the next call. */
MT_INLINE void mt_stream_before_realloc(struct mt_thread *t)
{
	t->stream.before |= MT_STREAM_BEFORE_REALLOC;
	mt_stream_go_slow(t);
}

/* The next allocation has this alignment, a power of two; others are not noted. */
MT_INLINE void mt_stream_before_aligned(struct mt_thread *t, uint64_t align)
{
	if (!align || align & (align - 1))
		return;
	t->stream.before |= (uint32_t)__builtin_ctzll(align) + 1;
	mt_stream_go_slow(t);
}

/*
 * As mt_stream_alloc(), for any block. One that has no cell is not in the stream: what was said of
 * it is forgotten.
 */
MT_INLINE void mt_stream_block(struct mt_thread *t, uint32_t cell, uint64_t size, uint32_t unit)
{
	if (MT_UNLIKELY(!cell)) {
		t->stream.before = 0;
		mt_stream_go_slow(t);
	} else if (MT_UNLIKELY(size > UINT32_MAX)) {
		mt_stream_alloc_slow(t, cell, size, unit);
	} else {
		mt_stream_alloc(t, cell, (uint32_t)size, unit);
	}
}

#endif
