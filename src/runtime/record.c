/* SPDX-License-Identifier: MIT */
/* Blocks in and out of the tables; see record.h for the rules and wire/state.h for the fields. */
#include "runtime/record.h"

#include "core/sys.h"
#include "runtime/index.h"
#include "runtime/sites.h"
#include "runtime/storage.h"
#include "runtime/verify.h"

enum { TICK_EVENTS = 16, SHARE_ABOVE = 1024, SHARE_BATCH = 512 };

static uint32_t now(void)
{
	return (uint32_t)__atomic_load_n(&mt_rt.hdr->now_unit, __ATOMIC_RELAXED);
}

/* --- peaks --------------------------------------------------------------------------------- */

MT_NOINLINE void mt_record_publish_live(struct mt_state_thread *row)
{
	struct mt_state_header *h = mt_rt.hdr;
	int64_t now_live = __atomic_load_n(&row->live_bytes, __ATOMIC_RELAXED);
	int64_t change = now_live - row->published;
	row->published = now_live;
	int64_t live = __atomic_add_fetch(&h->live_published, change, __ATOMIC_RELAXED);
	int64_t peak = __atomic_load_n(&h->peak_bytes, __ATOMIC_RELAXED);
	while (live > peak)
		if (__atomic_compare_exchange_n(&h->peak_bytes, &peak, live, 0, __ATOMIC_RELAXED,
						__ATOMIC_RELAXED)) {
			__atomic_store_n(&h->peak_unit, now(), __ATOMIC_RELAXED);
			__atomic_fetch_add(&h->peak_epoch, 1, __ATOMIC_RELAXED);
			break;
		}
}

MT_INLINE void count_live(struct mt_state_thread *row, int64_t change)
{
	int64_t live = row->live_bytes + change;
	__atomic_store_n(&row->live_bytes, live, __ATOMIC_RELAXED);
	if (live > row->peak_bytes)
		row->peak_bytes = live;
	/* pairs with the release in thread.c: the thread that ends the single time publishes our
	 * bytes */
	if (MT_LIKELY(__atomic_load_n(&mt_rt.single, __ATOMIC_ACQUIRE))) {
		struct mt_state_header *h = mt_rt.hdr;
		/* this thread is the only writer, but for the moment at which a second one begins
		 */
		if (live > __atomic_load_n(&h->peak_bytes, __ATOMIC_RELAXED)) {
			__atomic_store_n(&h->peak_bytes, live, __ATOMIC_RELAXED);
			__atomic_store_n(&h->peak_unit, now(), __ATOMIC_RELAXED);
			uint32_t epoch = __atomic_load_n(&h->peak_epoch, __ATOMIC_RELAXED);
			__atomic_store_n(&h->peak_epoch, epoch + 1, __ATOMIC_RELAXED);
		}
		return;
	}
	int64_t change_all = live - row->published;
	if (MT_UNLIKELY(change_all >= MT_PEAK_STEP || change_all <= -MT_PEAK_STEP))
		mt_record_publish_live(row);
}

/* The cell is about to change: keep what it held at the process's peak. */
MT_INLINE void keep_at_peak(struct mt_state_cell *c)
{
	uint32_t epoch = __atomic_load_n(&mt_rt.hdr->peak_epoch, __ATOMIC_RELAXED);
	if (c->at_peak_epoch != epoch) {
		c->at_peak_bytes = (int64_t)(c->bytes - c->freed_bytes);
		c->at_peak_count = (int64_t)(c->allocs - c->frees);
		c->at_peak_epoch = epoch;
	}
}

MT_NOINLINE static void publish_site(struct mt_state_cell *c, int64_t live)
{
	struct mt_state_site *s = &mt_rt.sites[c->site];
	int64_t change = live - c->published;
	c->published = live;
	int64_t all = __atomic_add_fetch(&s->live_published, change, __ATOMIC_RELAXED);
	int64_t peak = __atomic_load_n(&s->peak_published, __ATOMIC_RELAXED);
	while (all > peak && !__atomic_compare_exchange_n(&s->peak_published, &peak, all, 0,
							  __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

MT_INLINE void count_cell_live(struct mt_state_cell *c)
{
	int64_t live = (int64_t)(c->bytes - c->freed_bytes);
	if (live > c->peak_bytes)
		c->peak_bytes = live;
	if (MT_UNLIKELY(live - c->published >= MT_PEAK_STEP || c->published - live >= MT_PEAK_STEP))
		publish_site(c, live);
}

MT_INLINE void count_alloc_in_cell(struct mt_state_cell *c, uint64_t size)
{
	keep_at_peak(c);
	c->allocs++;
	c->bytes += size;
	uint32_t bucket = mt_state_size_bucket(size);
	if (MT_UNLIKELY(c->hist || c->size_bucket != bucket || c->size_known != 1) &&
	    c->size_known != 2)
		mt_cell_count_size_slow(c, bucket);
	count_cell_live(c);
}

/* --- records ------------------------------------------------------------------------------- */

/* Free records are passed between threads in batches: (count of pops) << 32 | first record. */
static uint64_t shared_free;

void mt_record_forget(void)
{
	shared_free = 0;
}

/*
 * A batch is a chain through `sequence`; its first record's `size` holds the next batch's first
 * record, its `unit` the number of records. The counter in the upper half keeps a pop from
 * mistaking a batch that went and came back for the one it looked at.
 */
MT_NOINLINE static void share_records(struct mt_thread *t)
{
	uint32_t first = t->free_head, last = first;
	for (int i = 1; i < SHARE_BATCH; i++)
		last = mt_rt.live[last].sequence;
	t->free_head = mt_rt.live[last].sequence;
	t->free_count -= SHARE_BATCH;
	mt_rt.live[last].sequence = 0;
	mt_rt.live[first].unit = SHARE_BATCH;
	uint64_t head = __atomic_load_n(&shared_free, __ATOMIC_RELAXED), next;
	do {
		mt_rt.live[first].size = (uint32_t)head;
		next = (head & 0xffffffff00000000u) | first;
	} while (!__atomic_compare_exchange_n(&shared_free, &head, next, 0, __ATOMIC_RELEASE,
					      __ATOMIC_RELAXED));
}

static uint32_t take_shared(struct mt_thread *t)
{
	uint64_t head = __atomic_load_n(&shared_free, __ATOMIC_ACQUIRE), next;
	uint32_t first;
	do {
		first = (uint32_t)head;
		if (!first)
			return 0;
		next = ((head >> 32) + 1) << 32 | mt_rt.live[first].size;
	} while (!__atomic_compare_exchange_n(&shared_free, &head, next, 0, __ATOMIC_ACQUIRE,
					      __ATOMIC_ACQUIRE));
	t->free_head = mt_rt.live[first].sequence;
	t->free_count = mt_rt.live[first].unit - 1;
	return first;
}

MT_NOINLINE static uint32_t take_record_slow(struct mt_thread *t)
{
	uint32_t r = take_shared(t);
	if (r)
		return r;
	r = mt_storage_take(MT_REGION_LIVE, MT_CHUNK_RECORDS);
	if (!r)
		return 0;
	t->fresh_next = r + 1;
	t->fresh_end = r + MT_CHUNK_RECORDS;
	return r;
}

MT_INLINE uint32_t take_record(struct mt_thread *t)
{
	uint32_t r = t->free_head;
	if (r) {
		t->free_head = mt_rt.live[r].sequence;
		t->free_count--;
		return r;
	}
	if (t->fresh_next < t->fresh_end)
		return t->fresh_next++;
	return take_record_slow(t);
}

MT_INLINE void give_record(struct mt_thread *t, uint32_t r)
{
	mt_rt.live[r].sequence = t->free_head;
	t->free_head = r;
	if (MT_UNLIKELY(++t->free_count > SHARE_ABOVE))
		share_records(t);
}

/* The table still holds a block at this address: its free passed out of our sight. */
MT_COLD static void drop_stale(struct mt_thread *t, const void *p)
{
	struct mt_gone gone = {0};
	if (!mt_record_take(t, p, &gone))
		return;
	mt_rt_lost(MT_LOST_UNSEEN_FREE);
	mt_record_gone(t, &gone, 1);
}

/* Whose block the slot holds; 0: nobody's. The thread that freed the last one may have been
 * another. */
static uint64_t place_in(const uint32_t *slot)
{
	return __atomic_load_n(&mt_rt.live[__atomic_load_n(slot, __ATOMIC_RELAXED)].place,
			       __ATOMIC_RELAXED);
}

/* The slot is not free: a block whose free we missed, or (rarely) two blocks in one granule. */
MT_COLD static int enter_occupied(struct mt_thread *t, uint64_t address, const uint32_t *slot)
{
	if (place_in(slot) == address)
		drop_stale(t, (const void *)address);
	return place_in(slot) != 0;
}

MT_COLD static int enter_large(struct mt_thread *t, uint64_t address, const struct mt_gone *b)
{
	drop_stale(t, (const void *)address);
	return mt_large_insert(address, MT_HEAP_MALLOC, b->size, b->cell, b->unit, b->sequence) !=
	       0;
}

/* Enters a block; 1, or 0 when the tables have no room. b->record: one to use again, or 0. */
MT_INLINE int enter_block(struct mt_thread *t, uint64_t address, const struct mt_gone *b)
{
	uint32_t *slot = NULL;
	if (MT_LIKELY(b->size < MT_LARGE_BYTES))
		slot = mt_index_slot(address);
	if (MT_UNLIKELY(!slot || (__atomic_load_n(slot, __ATOMIC_RELAXED) &&
				  enter_occupied(t, address, slot))))
		return enter_large(t, address, b);
	uint32_t r = b->record ? b->record : take_record(t);
	if (MT_UNLIKELY(!r))
		return 0;
	struct mt_state_live *l = &mt_rt.live[r];
	l->size = (uint32_t)b->size;
	l->cell = b->cell;
	l->unit = b->unit;
	l->sequence = b->sequence;
	__atomic_store_n(slot, r, __ATOMIC_RELAXED);
	__atomic_store_n(&l->place, address, __ATOMIC_RELEASE);
	return 1;
}

/* min-size, max-size, heaps: only totals for what is not wanted. */
MT_INLINE int is_wanted(size_t size)
{
	return size >= mt_rt.options.min_size && size <= mt_rt.options.max_size;
}

void mt_record_alloc(struct mt_thread *t, void *p, size_t size, enum mt_state_call call,
		     const struct mt_caller *caller, uint64_t source)
{
	struct mt_state_thread *row = t->row;
	if (MT_UNLIKELY((++t->events & (TICK_EVENTS - 1)) == 0) || MT_UNLIKELY(t->events == 1))
		mt_thread_tick(t);
	row->alloc_sequence++;
	t->last_pointer = (uint64_t)p;
	mt_count(&row->totals[MT_CLASS_MALLOC].allocs, 1);
	mt_count(&row->totals[MT_CLASS_MALLOC].bytes, size);

	struct mt_gone b = {.size = size, .unit = now(), .sequence = (uint32_t)row->alloc_sequence};
	if (MT_LIKELY(is_wanted(size))) {
		uint64_t tag = mt_site_tag(call, MT_HEAP_MALLOC, t->label);
		b.cell = mt_capture_stack(&t->capture, caller->sp, caller->ra, caller->fp,
					  tag ^ source * 0x9e3779b97f4a7c15u);
		if (MT_UNLIKELY(!b.cell))
			b.cell = mt_site_cell(t, tag, source);
		if (MT_LIKELY(b.cell)) {
			count_alloc_in_cell(&mt_rt.cells[b.cell], size);
			if (MT_UNLIKELY(mt_rt.options.verify) && !t->verify_in--)
				mt_verify_capture(t, b.cell);
		} else {
			mt_count(&row->unplaced_allocs, 1);
			row->unplaced_bytes += size;
		}
	} else {
		row->filtered_allocs++;
		row->filtered_bytes += size;
	}
	count_live(row, (int64_t)size);
	if (MT_UNLIKELY(!enter_block(t, (uint64_t)p, &b))) {
		row->untracked_allocs++;
		row->untracked_bytes += size;
		mt_rt_lost(MT_LOST_LIVE_FULL);
	}
}

MT_NOINLINE static int take_large(const void *p, struct mt_gone *ret_gone)
{
	struct mt_state_large l;
	if (!mt_large_remove((uint64_t)p, MT_HEAP_MALLOC, &l))
		return 0;
	*ret_gone = (struct mt_gone){
		.size = l.size, .cell = l.cell, .unit = l.unit, .sequence = l.sequence};
	return 1;
}

MT_INLINE int take_block(const void *p, struct mt_gone *ret_gone)
{
	uint32_t *slot = mt_index_find((uint64_t)p);
	uint32_t r = slot ? __atomic_load_n(slot, __ATOMIC_RELAXED) : 0;
	struct mt_state_live *l = &mt_rt.live[r];
	if (MT_UNLIKELY(!r || l->place != (uint64_t)p))
		return take_large(p, ret_gone);
	__atomic_store_n(&l->place, 0, __ATOMIC_RELEASE);
	__atomic_store_n(slot, 0, __ATOMIC_RELAXED);
	ret_gone->size = l->size;
	ret_gone->cell = l->cell;
	ret_gone->unit = l->unit;
	ret_gone->sequence = l->sequence;
	ret_gone->record = r;
	return 1;
}

/* 1 when the present call got this block nested; it is not looked for again. */
MT_COLD static int forget_nested(struct mt_thread *t, const void *p)
{
	for (size_t i = 0; i < MT_NESTED_MAX; i++)
		if (t->nested[i] == (uint64_t)p) {
			t->nested[i] = 0;
			return 1;
		}
	return 0;
}

int mt_record_take(struct mt_thread *t, const void *p, struct mt_gone *ret_gone)
{
	if (MT_LIKELY(take_block(p, ret_gone)))
		return 1;
	forget_nested(t, p);
	return 0;
}

void mt_record_restore(struct mt_thread *t, const void *p, const struct mt_gone *gone)
{
	if (!enter_block(t, (uint64_t)p, gone))
		mt_rt_lost(MT_LOST_LIVE_FULL);
}

MT_NOINLINE static uint32_t own_cell(struct mt_thread *t, uint32_t cell)
{
	return mt_site_cell_for_free(t, mt_rt.cells[cell].site);
}

MT_INLINE void count_gone(struct mt_thread *t, const struct mt_gone *gone, int is_realloc)
{
	struct mt_state_thread *row = t->row;
	mt_count(&row->totals[MT_CLASS_MALLOC].frees, 1);
	mt_count(&row->totals[MT_CLASS_MALLOC].freed_bytes, gone->size);
	uint32_t cell = gone->cell;
	int own = cell && mt_rt.cells[cell].thread == t->number;
	int temporary = own && !is_realloc && gone->sequence == (uint32_t)row->alloc_sequence;
	mt_count(&row->temporaries, (uint64_t)temporary);
	if (MT_UNLIKELY(cell && !own))
		cell = own_cell(t, cell);
	if (MT_LIKELY(cell)) {
		struct mt_state_cell *c = &mt_rt.cells[cell];
		keep_at_peak(c);
		c->frees++;
		c->freed_bytes += gone->size;
		c->temporaries += (uint64_t)temporary;
		uint32_t *life = &c->lifetime[mt_state_life_bucket(now() - gone->unit)];
		*life += *life != UINT32_MAX;
		count_cell_live(c);
	}
	count_live(row, -(int64_t)gone->size);
}

void mt_record_gone(struct mt_thread *t, const struct mt_gone *gone, int is_realloc)
{
	count_gone(t, gone, is_realloc);
	if (gone->record)
		give_record(t, gone->record);
}

void mt_record_free(struct mt_thread *t, const void *p)
{
	struct mt_gone gone = {0};
	if (MT_UNLIKELY(!take_block(p, &gone))) {
		forget_nested(t, p);
		t->row->unknown_frees++;
		return;
	}
	count_gone(t, &gone, 0);
	if (MT_LIKELY(gone.record != 0))
		give_record(t, gone.record);
}

/* Counters of nested calls: a handler may come between a load and its store. */
static void count_nested(uint64_t *counter, uint64_t by)
{
	__atomic_fetch_add(counter, by, __ATOMIC_RELAXED);
}

static int is_nested(const struct mt_thread *t, const void *p)
{
	for (size_t i = 0; i < MT_NESTED_MAX; i++)
		if (t->nested[i] == (uint64_t)p)
			return 1;
	return 0;
}

MT_COLD void *mt_record_nested(enum mt_enter how, struct mt_thread *t, void *p)
{
	size_t i = 0;
	/* reallocarray of glibc calls realloc, calloc of musl malloc: counted there */
	if (how != MT_ENTER_NESTED || !p || is_nested(t, p))
		return p;
	__atomic_or_fetch(&t->settle, MT_SETTLE_NESTED, __ATOMIC_RELAXED);
	while (i < MT_NESTED_MAX - 1 && t->nested[i])
		i++;
	t->nested[i] = (uint64_t)p;
	count_nested(&t->row->nested_allocs, 1);
	return p;
}

MT_COLD void mt_record_returned(struct mt_thread *t, const void *p)
{
	if (forget_nested(t, p))
		count_nested(&t->row->nested_allocs, -(uint64_t)1);
}

/* A place in the list of deferred frees; handlers that interrupt this one get others. NULL: full.
 */
static struct mt_deferred *reserve_deferred(struct mt_thread *t)
{
	uint32_t s = t->settle;
	do {
		if ((s & MT_SETTLE_COUNT) >= MT_DEFERRED_MAX)
			return NULL;
	} while (!__atomic_compare_exchange_n(&t->settle, &s, s + 1, 0, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return &t->deferred[s & MT_SETTLE_COUNT];
}

void mt_record_free_nested(struct mt_thread *t, const void *p)
{
	struct mt_gone gone = {0};
	forget_nested(t, p);
	if (!take_block(p, &gone))
		return;
	struct mt_deferred *d = reserve_deferred(t);
	if (!d) { /* the block is gone; its record and counters are given up */
		count_nested(&t->row->nested_frees, 1);
		return;
	}
	d->size = gone.size;
	d->cell = gone.cell;
	d->unit = gone.unit;
	d->sequence = gone.sequence;
	d->record = gone.record;
	MT_SIGNAL_FENCE();
	d->full = 1;
}

/* The newest deferred free: 1 and *ret_gone, or 0 when a jump left its place empty. */
static int pop_deferred(struct mt_thread *t, uint32_t settle, struct mt_gone *ret_gone)
{
	struct mt_deferred *d = &t->deferred[(settle & MT_SETTLE_COUNT) - 1];
	int full = d->full == 1;
	ret_gone->size = d->size;
	ret_gone->cell = d->cell;
	ret_gone->unit = d->unit;
	ret_gone->sequence = d->sequence;
	ret_gone->record = d->record;
	d->full = 0;
	MT_SIGNAL_FENCE();
	/* fails when a handler has added one meanwhile: this place is found empty then */
	__atomic_compare_exchange_n(&t->settle, &settle, settle - 1, 0, __ATOMIC_RELAXED,
				    __ATOMIC_RELAXED);
	return full;
}

MT_COLD void mt_settle(void)
{
	struct mt_thread *t;
	struct mt_gone gone = {0};
	uint32_t settle;
	while (mt_enter(&t) == MT_ENTER_TRACK) {
		__atomic_fetch_and(&t->settle, MT_SETTLE_COUNT, __ATOMIC_RELAXED);
		for (size_t i = 0; i < MT_NESTED_MAX; i++)
			t->nested[i] = 0;
		while (((settle = t->settle) & MT_SETTLE_COUNT) != 0)
			if (pop_deferred(t, settle, &gone))
				mt_record_gone(t, &gone, 0);
		t->depth = 0;
		MT_SIGNAL_FENCE();
		if (!t->settle)
			return;
	}
}

uint64_t mt_record_sequence(void)
{
	/* not in the row: a handler that forks here leaves a child in which the row is unmapped */
	const struct mt_thread *t = mt_thread_self();
	return t ? t->events : 0;
}

void *mt_record_unseen(void *p, size_t size, enum mt_state_call call, uint64_t before,
		       const struct mt_caller *caller)
{
	struct mt_thread *t;
	if (!p || mt_enter(&t) != MT_ENTER_TRACK)
		return p;
	int seen = t->last_pointer == (uint64_t)p && t->events != (uint32_t)before;
	if (!seen && mt_recording())
		mt_record_alloc(t, p, size, call, caller, 0);
	mt_leave(t);
	return p;
}

/* --- other heaps --------------------------------------------------------------------------- */

static enum mt_state_heap_class class_of(uint32_t heap)
{
	return heap < MT_HEAP_FIRST_CUSTOM ? (enum mt_state_heap_class)heap : MT_CLASS_CUSTOM;
}

uint32_t mt_record_mapping_alloc(struct mt_thread *t, uint32_t heap, uint64_t size,
				 enum mt_state_call call, const struct mt_caller *caller)
{
	struct mt_state_totals *sum = &t->row->totals[class_of(heap)];
	uint64_t tag = mt_site_tag(call, heap, t->label);
	mt_thread_tick(t);
	sum->allocs++;
	sum->bytes += size;
	uint32_t cell = mt_capture_stack(&t->capture, caller->sp, caller->ra, caller->fp, tag);
	if (!cell)
		cell = mt_site_cell(t, tag, 0);
	if (cell)
		count_alloc_in_cell(&mt_rt.cells[cell], size);
	return cell;
}

void mt_record_mapping_gone(struct mt_thread *t, uint32_t heap, uint32_t cell, uint64_t size,
			    uint32_t unit, int whole)
{
	struct mt_state_totals *sum = &t->row->totals[class_of(heap)];
	sum->frees += (uint64_t)whole;
	sum->freed_bytes += size;
	if (cell && mt_rt.cells[cell].thread != t->number)
		cell = own_cell(t, cell);
	if (!cell)
		return;
	struct mt_state_cell *c = &mt_rt.cells[cell];
	keep_at_peak(c);
	c->frees += (uint64_t)whole;
	c->freed_bytes += size;
	if (whole) {
		uint32_t *life = &c->lifetime[mt_state_life_bucket(now() - unit)];
		*life += *life != UINT32_MAX;
	}
	count_cell_live(c);
}

void mt_record_custom_alloc(struct mt_thread *t, uint32_t heap, const void *p, size_t size,
			    const struct mt_caller *caller)
{
	uint32_t cell = mt_record_mapping_alloc(t, heap, size, MT_CALL_CUSTOM, caller);
	if (!mt_large_insert((uint64_t)p, heap, size, cell, now(), 0))
		mt_rt_lost(MT_LOST_LIVE_FULL);
}

void mt_record_custom_free(struct mt_thread *t, uint32_t heap, const void *p)
{
	struct mt_state_large l;
	if (mt_large_remove((uint64_t)p, heap, &l))
		mt_record_mapping_gone(t, heap, l.cell, l.size, l.unit, 1);
	else
		t->row->unknown_frees++;
}
