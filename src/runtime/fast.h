/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_FAST_H
#define MT_RUNTIME_FAST_H

/*
 * What a malloc and free of an ordinary block run, for inlining into those two hooks. The paths
 * here call nothing: what is not ordinary (first sight of a stack, a step to publish, a table to
 * grow) is found out before anything is changed, and left to record.c. Rules: record.h. No lock, no
 * system call, no shared line written.
 *
 * The cost here is the cost of the tool: every line is measured (tests/cost).
 */

#include "runtime/index.h"
#include "runtime/record.h"
#include "runtime/sites.h"
#include "runtime/stream.h"

MT_INLINE uint32_t mt_now(void)
{
	return (uint32_t)__atomic_load_n(&mt_rt.hdr->now_unit, __ATOMIC_RELAXED);
}

/* Whether a balance is further from what was published of it than a step. */
MT_INLINE int mt_is_step(int64_t live, int64_t published)
{
	return (uint64_t)(live - published) + MT_PEAK_STEP - 1 > 2 * (uint64_t)(MT_PEAK_STEP - 1);
}

/* Raises a highest value that others raise too. 1: by this call. */
MT_INLINE int mt_raise(int64_t *highest, int64_t value)
{
	int64_t seen = __atomic_load_n(highest, __ATOMIC_RELAXED);
	while (value > seen)
		if (__atomic_compare_exchange_n(highest, &seen, value, 0, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED))
			return 1;
	return 0;
}

/* The cell is about to change: keep what it held at the process's peak. */
MT_INLINE void mt_cell_keep_at_peak(struct mt_state_cell *c)
{
	uint32_t epoch = __atomic_load_n(&mt_rt.hdr->peak_epoch, __ATOMIC_RELAXED);
	if (MT_UNLIKELY(c->at_peak_epoch != epoch)) {
		c->at_peak_bytes = (int64_t)(c->bytes - c->freed_bytes);
		c->at_peak_count = (int64_t)(c->allocs - c->frees);
		c->at_peak_epoch = epoch;
	}
}

/* The thread's live bytes are `live`, more than ever. */
MT_INLINE void mt_count_peak(struct mt_state_thread *row, int64_t live, uint32_t single)
{
	struct mt_state_header *h = mt_rt.hdr;
	row->peak_bytes = live;
	if (!single)
		return;
	/* this thread is the only writer, but for the moment at which a second one begins */
	__atomic_store_n(&h->peak_bytes, live, __ATOMIC_RELAXED);
	__atomic_store_n(&h->peak_unit, mt_now(), __ATOMIC_RELAXED);
	uint32_t epoch = __atomic_load_n(&h->peak_epoch, __ATOMIC_RELAXED);
	__atomic_store_n(&h->peak_epoch, epoch + 1, __ATOMIC_RELAXED);
}

/* The count that a size goes into; NULL: the one bucket of the cell so far, or not known yet. */
MT_INLINE uint32_t *mt_cell_size_count(const struct mt_state_cell *c, uint32_t bucket)
{
	return c->size_known == MT_SIZE_HIST ? &mt_rt.hists[c->hist].count[bucket] : NULL;
}

MT_INLINE int mt_cell_has_one_size(const struct mt_state_cell *c, uint32_t bucket)
{
	uint16_t pair;
	_Static_assert(offsetof(struct mt_state_cell, size_known) ==
			       offsetof(struct mt_state_cell, size_bucket) + 1,
		       "read as one");
	__builtin_memcpy(&pair, &c->size_bucket, sizeof(pair));
	return pair == (MT_SIZE_ONE << 8 | bucket);
}

MT_INLINE void mt_count_saturating(uint32_t *count)
{
	if (MT_UNLIKELY(!++*count))
		*count = UINT32_MAX;
}

/* --- records ------------------------------------------------------------------------------- */

/* The record that mt_take_next() hands out, or 0: the thread has none. */
MT_INLINE uint32_t mt_next_record(const struct mt_thread *t)
{
	if (MT_LIKELY(t->free_head))
		return t->free_head;
	return t->fresh_next < t->fresh_end ? t->fresh_next : 0;
}

MT_INLINE void mt_take_next(struct mt_thread *t)
{
	if (MT_LIKELY(t->free_head)) {
		t->free_head = mt_rt.live[t->free_head].sequence;
		t->free_count--;
	} else {
		t->fresh_next++;
	}
}

/* Set in the slot of a sampled block: its free is not an ordinary one. */
#define MT_SLOT_SAMPLED 0x80000000u

/* mark: 0 or MT_SLOT_SAMPLED */
MT_INLINE void mt_fill_record(uint32_t *slot, uint32_t r, uint32_t mark, uint64_t address,
			      uint32_t size, uint32_t cell, uint32_t unit, uint32_t sequence)
{
	struct mt_state_live *l = &mt_rt.live[r];
	l->size = size;
	l->cell = cell;
	l->unit = unit;
	l->sequence = sequence;
	__atomic_store_n(slot, r | mark, __ATOMIC_RELAXED);
	__atomic_store_n(&l->place, address, __ATOMIC_RELEASE);
}

/* --- events -------------------------------------------------------------------------------- */

/* 1: sizes like this one are counted, recorded one by one, and small. */
MT_INLINE int mt_is_plain(size_t size)
{
	return size - mt_rt.plain_from < mt_rt.plain_span;
}

/* Where mt_fast_alloc() will look: its cache miss passes while the stack is found out. */
MT_INLINE uint32_t *mt_fast_slot(uint64_t address)
{
	uint32_t *slot = mt_index_find(address);
	__builtin_prefetch(slot, 1);
	return slot;
}

/* Whether the thread is known to record its events (stream.h), or not to; a constant where these
 * are inlined. */
enum mt_fast_mode { MT_FAST_FULL, MT_FAST_STREAM, MT_FAST_ANY };

MT_INLINE int mt_fast_streams(const struct mt_thread *t, enum mt_fast_mode mode)
{
	return mode == MT_FAST_STREAM || (mode == MT_FAST_ANY && MT_UNLIKELY(t->streaming));
}

/*
 * A new block of the malloc heap, which the index has at `slot`. 1, or 0: not ordinary (cell 0
 * never is), nothing is changed.
 */
MT_INLINE int mt_fast_alloc(struct mt_thread *t, uint32_t *slot, uint64_t address, size_t size,
			    uint32_t cell, enum mt_fast_mode mode)
{
	struct mt_state_thread *row = t->row;
	struct mt_state_totals *sum = &row->totals[MT_CLASS_MALLOC];
	struct mt_state_cell *c = &mt_rt.cells[cell];
	uint32_t bucket = 63 - (uint32_t)__builtin_clzll(2 * size + 1); /* plain: not the last */
	uint64_t bytes = sum->bytes + size, cell_bytes = c->bytes + size;
	int64_t live = (int64_t)(bytes - sum->freed_bytes);
	int64_t cell_live = (int64_t)(cell_bytes - c->freed_bytes);
	uint32_t r = mt_next_record(t), *size_count = NULL;
	/* pairs with the release in thread.c: the thread that ends the single time publishes our
	 * bytes */
	uint32_t single = __atomic_load_n(&mt_rt.single, __ATOMIC_ACQUIRE);
	if (MT_UNLIKELY(!slot || __atomic_load_n(slot, __ATOMIC_RELAXED) || !r ||
			mt_is_step(cell_live, c->published) ||
			(!single && mt_is_step(live, row->published))))
		return 0;
	if (MT_UNLIKELY(!mt_cell_has_one_size(c, bucket))) {
		size_count = mt_cell_size_count(c, bucket);
		if (MT_UNLIKELY(!size_count))
			return 0;
		mt_count_saturating(size_count);
	}
	t->last_pointer = address;
	uint32_t sequence = (uint32_t)mt_count_to(&sum->allocs, 1);
	__atomic_store_n(&sum->bytes, bytes, __ATOMIC_RELAXED);
	mt_cell_keep_at_peak(c);
	c->allocs++;
	c->bytes = cell_bytes;
	if (cell_live > c->peak_bytes)
		c->peak_bytes = cell_live;
	if (live > row->peak_bytes)
		mt_count_peak(row, live, single);
	mt_take_next(t);
	uint32_t unit = mt_now();
	mt_fill_record(slot, r, 0, address, (uint32_t)size, cell, unit, sequence);
	if (mt_fast_streams(t, mode))
		mt_stream_alloc(t, cell, (uint32_t)size, unit);
	return 1;
}

/*
 * What the index has at an address: its slot, and the record number of a small block that is no
 * sample; 0: none is known.
 */
MT_INLINE uint32_t mt_fast_find(uint64_t address, uint32_t **ret_slot)
{
	uint32_t *slot = mt_index_find(address);
	uint32_t r = slot ? __atomic_load_n(slot, __ATOMIC_RELAXED) : 0;
	*ret_slot = slot;
	/* negative: MT_SLOT_SAMPLED */
	return MT_LIKELY((int32_t)r > 0 && mt_rt.live[r].place == address) ? r : 0;
}

/*
 * A block of the malloc heap goes, which mt_fast_find() found. 1, or 0: not ordinary, nothing is
 * changed.
 */
MT_INLINE int mt_fast_free_found(struct mt_thread *t, uint32_t *slot, uint32_t r,
				 enum mt_fast_mode mode)
{
	struct mt_state_thread *row = t->row;
	struct mt_state_totals *sum = &row->totals[MT_CLASS_MALLOC];
	struct mt_state_live *l = &mt_rt.live[r];
	if (MT_UNLIKELY(t->free_count >= t->free_slow_at))
		return 0;
	struct mt_state_cell *c = &mt_rt.cells[l->cell];
	/* another thread's block, whose counters are its own; or no cell (cell 0 is no thread's) */
	if (MT_UNLIKELY(c->thread != t->number))
		return 0;
	uint64_t size = l->size, freed = sum->freed_bytes + size;
	uint64_t cell_freed = c->freed_bytes + size;
	/* single: see mt_fast_alloc() */
	if (MT_UNLIKELY(mt_is_step((int64_t)(c->bytes - cell_freed), c->published) ||
			(!__atomic_load_n(&mt_rt.single, __ATOMIC_ACQUIRE) &&
			 mt_is_step((int64_t)(sum->bytes - freed), row->published))))
		return 0;
	__atomic_store_n(&l->place, 0, __ATOMIC_RELEASE);
	__atomic_store_n(slot, 0, __ATOMIC_RELAXED);
	mt_count(&sum->frees, 1);
	__atomic_store_n(&sum->freed_bytes, freed, __ATOMIC_RELAXED);
	mt_cell_keep_at_peak(c);
	if (l->sequence == (uint32_t)sum->allocs) {
		mt_count(&row->temporaries, 1);
		c->temporaries++;
	}
	c->frees++;
	c->freed_bytes = cell_freed;
	uint32_t unit = mt_now();
	mt_count_saturating(&c->lifetime[mt_state_life_bucket(unit - l->unit)]);
	if (mt_fast_streams(t, mode))
		mt_stream_free_own(t, l->cell, l->sequence, unit);
	l->sequence = t->free_head;
	t->free_head = r;
	t->free_count++;
	return 1;
}

/* Both. 1, or 0: not ordinary, nothing is changed. */
MT_INLINE int mt_fast_free(struct mt_thread *t, uint64_t address, enum mt_fast_mode mode)
{
	uint32_t *slot, r = mt_fast_find(address, &slot);
	return MT_LIKELY(r) && mt_fast_free_found(t, slot, r, mode);
}

/*
 * The same for a block without a cell (check mode, when stacks are not wanted): only the thread's
 * totals count it.
 */
MT_INLINE int mt_fast_alloc_bare(struct mt_thread *t, uint32_t *slot, uint64_t address, size_t size)
{
	struct mt_state_thread *row = t->row;
	struct mt_state_totals *sum = &row->totals[MT_CLASS_MALLOC];
	uint64_t bytes = sum->bytes + size;
	int64_t live = (int64_t)(bytes - sum->freed_bytes);
	uint32_t r = mt_next_record(t);
	uint32_t single = __atomic_load_n(&mt_rt.single, __ATOMIC_ACQUIRE);
	if (MT_UNLIKELY(!slot || __atomic_load_n(slot, __ATOMIC_RELAXED) || !r ||
			size >= MT_LARGE_BYTES || (!single && mt_is_step(live, row->published))))
		return 0;
	uint32_t sequence = (uint32_t)mt_count_to(&sum->allocs, 1);
	__atomic_store_n(&sum->bytes, bytes, __ATOMIC_RELAXED);
	if (MT_UNLIKELY(live > row->peak_bytes))
		mt_count_peak(row, live, single);
	mt_take_next(t);
	mt_fill_record(slot, r, 0, address, (uint32_t)size, 0, mt_now(), sequence);
	return 1;
}

/* slot: where the index has the block of record r. */
MT_INLINE int mt_fast_free_bare(struct mt_thread *t, uint32_t *slot, uint32_t r)
{
	struct mt_state_thread *row = t->row;
	struct mt_state_totals *sum = &row->totals[MT_CLASS_MALLOC];
	struct mt_state_live *l = &mt_rt.live[r];
	uint64_t freed = sum->freed_bytes + l->size;
	if (MT_UNLIKELY(l->cell || t->free_count >= t->free_slow_at ||
			(!__atomic_load_n(&mt_rt.single, __ATOMIC_ACQUIRE) &&
			 mt_is_step((int64_t)(sum->bytes - freed), row->published))))
		return 0;
	__atomic_store_n(&l->place, 0, __ATOMIC_RELEASE);
	__atomic_store_n(slot, 0, __ATOMIC_RELAXED);
	mt_count(&sum->frees, 1);
	__atomic_store_n(&sum->freed_bytes, freed, __ATOMIC_RELAXED);
	l->sequence = t->free_head;
	t->free_head = r;
	t->free_count++;
	return 1;
}

#endif
