/* SPDX-License-Identifier: MIT */
/* Blocks in and out of the tables; see record.h for the rules and wire/state.h for the fields. */
#include "runtime/record.h"

#include "core/sys.h"
#include "core/clock.h"
#include "runtime/check.h"
#include "runtime/foreign.h"
#include "runtime/guard.h"
#include "runtime/light.h"
#include "runtime/sampler.h"
#include "runtime/storage.h"
#include "runtime/verify.h"

enum { SHARE_BATCH = 512 };

/* --- peaks --------------------------------------------------------------------------------- */

MT_NOINLINE void mt_record_publish_live(struct mt_state_thread *row)
{
	struct mt_state_header *h = mt_rt.hdr;
	const struct mt_state_totals *sum = &row->totals[MT_CLASS_MALLOC];
	int64_t now_live = (int64_t)(mt_counted(&sum->bytes) - mt_counted(&sum->freed_bytes));
	int64_t change = now_live - row->published;
	row->published = now_live;
	int64_t live = __atomic_add_fetch(&h->live_published, change, __ATOMIC_RELAXED);
	if (mt_raise(&h->peak_bytes, live)) {
		__atomic_store_n(&h->peak_unit, mt_now(), __ATOMIC_RELAXED);
		__atomic_fetch_add(&h->peak_epoch, 1, __ATOMIC_RELAXED);
	}
}

MT_NOINLINE static void publish_site(struct mt_state_cell *c, int64_t live)
{
	struct mt_state_site *s = &mt_rt.sites[c->site];
	int64_t change = live - c->published;
	c->published = live;
	int64_t all = __atomic_add_fetch(&s->live_published, change, __ATOMIC_RELAXED);
	mt_raise(&s->peak_published, all);
}

/* The thread's live bytes have changed. */
static void count_live(struct mt_state_thread *row)
{
	const struct mt_state_totals *sum = &row->totals[MT_CLASS_MALLOC];
	int64_t live = (int64_t)(sum->bytes - sum->freed_bytes);
	/* pairs with the release in thread.c: the thread that ends the single time publishes our
	 * bytes */
	uint32_t single = __atomic_load_n(&mt_rt.single, __ATOMIC_ACQUIRE);
	if (live > row->peak_bytes)
		mt_count_peak(row, live, single);
	if (!single && mt_is_step(live, row->published))
		mt_record_publish_live(row);
}

static void count_cell_live(struct mt_state_cell *c)
{
	int64_t live = (int64_t)(c->bytes - c->freed_bytes);
	if (live > c->peak_bytes)
		c->peak_bytes = live;
	if (mt_is_step(live, c->published))
		publish_site(c, live);
}

/* weight: bytes that the block stands for. */
static void count_cell_alloc(struct mt_state_cell *c, uint64_t size, uint64_t weight)
{
	uint32_t bucket = mt_state_size_bucket(size);
	mt_cell_keep_at_peak(c);
	c->allocs++;
	c->bytes += weight;
	if (!mt_cell_has_one_size(c, bucket)) {
		uint32_t *count = mt_cell_size_count(c, bucket);
		if (count)
			mt_count_saturating(count);
		else
			mt_cell_count_size_slow(c, bucket);
	}
	count_cell_live(c);
}

/* size: as weight above. whole: the block is gone, not only a part of it. */
static void count_cell_free(struct mt_state_cell *c, uint64_t size, uint32_t unit, int whole)
{
	mt_cell_keep_at_peak(c);
	c->frees += (uint64_t)whole;
	c->freed_bytes += size;
	if (whole)
		mt_count_saturating(&c->lifetime[mt_state_life_bucket(mt_now() - unit)]);
	count_cell_live(c);
}

/* --- samples ------------------------------------------------------------------------------- */

/* How the blocks of a cell were chosen; NULL: all are recorded. */
static const struct mt_state_regime *regime_of(uint32_t cell)
{
	const struct mt_state_regime *all = mt_storage_base(MT_REGION_REGIMES);
	uint32_t regime = cell ? mt_rt.sites[mt_rt.cells[cell].site].regime : 0;
	return regime ? &all[regime] : NULL;
}

static struct mt_state_sampled *sampled_of(uint32_t cell)
{
	return &((struct mt_state_sampled *)mt_storage_base(MT_REGION_SAMPLED))[cell];
}

static void add_wide(uint64_t sum[2], unsigned __int128 by)
{
	unsigned __int128 v = ((unsigned __int128)sum[1] << 64 | sum[0]) + by;
	sum[0] = (uint64_t)v;
	sum[1] = (uint64_t)(v >> 64);
}

/* Whole bytes out of 1/65536; what is left over waits for the next time. */
static uint64_t whole_bytes(uint64_t q16, uint32_t *rest_q16)
{
	uint64_t rest = (q16 & 0xffff) + *rest_q16;
	*rest_q16 = rest & 0xffff;
	return (q16 >> 16) + (rest >> 16);
}

/* mt_sample_weight(): sizes come again and again. */
static const struct mt_weight *weight_of(struct mt_thread *t, const struct mt_state_regime *regime,
					 uint64_t size)
{
	struct mt_weight_memo *m =
		&t->weights[(size * 0x9e3779b97f4a7c15u >> 32) % MT_WEIGHTS_KEPT];
	if (MT_UNLIKELY(m->regime != regime || m->size != size))
		*m = (struct mt_weight_memo){regime, size, mt_sample_weight(regime, size)};
	return &m->weight;
}

/* What a new block of the cell stands for, in bytes. */
static uint64_t weigh_alloc(struct mt_thread *t, uint32_t cell, uint64_t size)
{
	const struct mt_state_regime *regime = regime_of(cell);
	if (MT_LIKELY(!regime))
		return size;
	struct mt_state_sampled *s = sampled_of(cell);
	const struct mt_weight *w = weight_of(t, regime, size);
	s->sample_bytes += size;
	add_wide(s->count_q16, w->count_q16);
	add_wide(s->bytes_variance, w->bytes_variance);
	add_wide(s->count_variance, w->count_variance);
	return whole_bytes(w->bytes_q16, &s->bytes_rest_q16);
}

/* The same for one that goes; cell: the freeing thread's, 0: none. */
static uint64_t weigh_free(struct mt_thread *t, const struct mt_state_regime *regime, uint32_t cell,
			   uint64_t size)
{
	if (MT_LIKELY(!regime))
		return size;
	const struct mt_weight *w = weight_of(t, regime, size);
	if (!cell)
		return w->bytes_q16 >> 16;
	struct mt_state_sampled *s = sampled_of(cell);
	s->freed_sample_bytes += size;
	add_wide(s->freed_count_q16, w->count_q16);
	add_wide(s->freed_bytes_variance, w->bytes_variance);
	add_wide(s->freed_count_variance, w->count_variance);
	return whole_bytes(w->bytes_q16, &s->freed_bytes_rest_q16);
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

static uint32_t take_record(struct mt_thread *t)
{
	uint32_t r = mt_next_record(t);
	if (!r)
		return take_record_slow(t);
	mt_take_next(t);
	return r;
}

static void give_record(struct mt_thread *t, uint32_t r)
{
	mt_rt.live[r].sequence = t->free_head;
	t->free_head = r;
	if (++t->free_count > MT_SHARE_ABOVE)
		share_records(t);
}

MT_NOINLINE static int take_large(const void *p, struct mt_gone *ret_gone)
{
	struct mt_state_large l;
	if (!mt_large_remove((uint64_t)p, MT_HEAP_MALLOC, &l))
		return 0;
	*ret_gone = (struct mt_gone){
		.size = l.size, .cell = l.cell, .unit = l.unit, .sequence = l.sequence};
	if (regime_of(l.cell))
		mt_filter_remove((uint64_t)p);
	return 1;
}

MT_INLINE int take_block(const void *p, struct mt_gone *ret_gone)
{
	uint32_t *slot = mt_index_find((uint64_t)p);
	uint32_t mark = slot ? __atomic_load_n(slot, __ATOMIC_RELAXED) : 0;
	uint32_t r = mark & ~MT_SLOT_SAMPLED;
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
	if (MT_UNLIKELY(mark != r))
		mt_filter_remove((uint64_t)p);
	return 1;
}

/* The table still holds a block at this address: its free passed out of our sight. */
MT_COLD static void drop_stale(struct mt_thread *t, const void *p)
{
	struct mt_gone gone = {0};
	if (!take_block(p, &gone)) /* what STATS counted of it is not known any more */
		return;
	mt_rt_lost(MT_LOST_UNSEEN_FREE);
	mt_record_gone(t, &gone, 1);
}

/* Whose block the slot holds; 0: nobody's. The thread that freed the last one may have been
 * another. */
static uint64_t place_in(const uint32_t *slot)
{
	uint32_t r = __atomic_load_n(slot, __ATOMIC_RELAXED) & ~MT_SLOT_SAMPLED;
	return __atomic_load_n(&mt_rt.live[r].place, __ATOMIC_RELAXED);
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

/* No room: what becomes of the block will not be known. */
MT_COLD static void count_without_block(struct mt_thread *t, uint64_t size, int is_sample)
{
	if (is_sample && t->stats) {
		mt_light_add(&t->stats->no_block, 1);
		return;
	}
	mt_count(&t->row->untracked_allocs, 1);
	mt_count(&t->row->untracked_bytes, size);
	mt_rt_lost(MT_LOST_LIVE_FULL);
}

/* Enters a block. b->record: one to use again, or 0. */
static void enter_block(struct mt_thread *t, uint64_t address, const struct mt_gone *b)
{
	uint32_t *slot = NULL, r = 0;
	uint32_t mark = regime_of(b->cell) ? MT_SLOT_SAMPLED : 0;
	int entered;
	if (b->size < MT_LARGE_BYTES)
		slot = mark ? mt_index_slot_of_sample(address) : mt_index_slot(address);
	if (!slot ||
	    (__atomic_load_n(slot, __ATOMIC_RELAXED) && enter_occupied(t, address, slot))) {
		if (b->size < MT_LARGE_BYTES)
			__atomic_store_n(&mt_rt.small_in_large, 1, __ATOMIC_RELAXED);
		entered = enter_large(t, address, b);
	} else {
		r = b->record ? b->record : take_record(t);
		entered = r != 0;
	}
	if (mark && entered) {
		mt_filter_add(address);
		if (r)
			mt_index_touch(slot);
	}
	if (r) {
		mt_fill_record(slot, r, mark, address, (uint32_t)b->size, b->cell, b->unit,
			       b->sequence);
	} else if (!entered) {
		count_without_block(t, b->size, mark != 0);
	}
}

void mt_record_set_plain(void)
{
	const struct mt_options *o = &mt_rt.options;
	uint64_t to = MT_MIN(o->max_size, (uint64_t)MT_LARGE_BYTES - 1);
	mt_rt.plain_from = o->min_size;
	mt_rt.plain_span = to >= o->min_size && !o->verify ? to - o->min_size + 1 : 0;
}

/* min-size, max-size, heaps: only totals for what is not wanted. */
MT_INLINE int is_wanted(size_t size)
{
	return size >= mt_rt.options.min_size && size <= mt_rt.options.max_size;
}

/* The thread's cell for the caller's stack. 0: no room (counted). */
static uint32_t find_cell(struct mt_thread *t, uint64_t tag, uint64_t source,
			  const struct mt_caller *caller)
{
	uint32_t cell = mt_capture_stack(&t->capture, caller->sp, caller->ra, caller->fp,
					 mt_site_identity(tag, source));
	return cell ? cell : mt_site_cell(t, tag, source);
}

/* Counts and enters a block. cell 0: it belongs to none. */
static void count_block(struct mt_thread *t, uint64_t address, uint64_t size, uint32_t cell)
{
	struct mt_state_totals *sum = &t->row->totals[MT_CLASS_MALLOC];
	struct mt_gone b = {.size = size, .cell = cell};
	uint64_t weight = weigh_alloc(t, cell, size);
	t->last_pointer = address;
	b.sequence = (uint32_t)mt_count_to(&sum->allocs, 1);
	mt_count(&sum->bytes, weight);
	if (cell)
		count_cell_alloc(&mt_rt.cells[cell], size, weight);
	if (t->light)
		b.sequence = mt_light_moment(t);
	count_live(t->row);
	b.unit = mt_now();
	enter_block(t, address, &b);
	if (MT_UNLIKELY(t->streaming))
		mt_stream_block(t, cell, size, b.unit);
}

/* A block that the options leave out: in the totals, and its free will be. */
static void count_filtered(struct mt_thread *t, uint64_t address, uint64_t size)
{
	mt_count(&t->row->filtered_allocs, 1);
	mt_count(&t->row->filtered_bytes, size);
	count_block(t, address, size, 0);
}

/* A block that is wanted. cell 0: there was no room for its site. */
static void count_in_cell(struct mt_thread *t, uint64_t address, uint64_t size, uint32_t cell)
{
	if (MT_UNLIKELY(t->excluded)) {
		t->excluded = 0;
		count_filtered(t, address, size);
		return;
	}
	if (!cell) {
		mt_count(&t->row->unplaced_allocs, 1);
		mt_count(&t->row->unplaced_bytes, size);
	}
	count_block(t, address, size, cell);
}

/* The tag of the thread's allocations, in another regime. */
static uint64_t tag_in(const struct mt_thread *t, uint32_t regime)
{
	return (t->tag & ~MT_TAG_REGIME) | (uint64_t)regime << 16;
}

/* A sampled block; without a cell it has no regime, so it is left out altogether. */
static uint32_t record_sample(struct mt_thread *t, uint64_t address, uint64_t size, uint64_t tag,
			      const struct mt_caller *caller, uint64_t source)
{
	uint64_t from = mt_rt.no_ticks ? 0 : mt_clock_ticks();
	mt_thread_tick(t);
	uint32_t cell = find_cell(t, tag, source, caller);
	if (MT_LIKELY(cell))
		count_block(t, address, size, cell);
	else
		mt_light_add(t->excluded ? &t->stats->left_by_module : &t->stats->no_site, 1);
	t->excluded = 0;
	if (MT_UNLIKELY(mt_rt.options.verify) && cell && !t->verify_in--)
		mt_verify_capture(t, cell);
	uint64_t now = mt_rt.no_ticks ? 0 : mt_clock_ticks();
	mt_control_rails(t, now - from, now);
	return cell;
}

MT_NOINLINE static void *record_light(struct mt_thread *t, void *p, size_t size,
				      enum mt_state_call call, const struct mt_caller *caller,
				      uint64_t source)
{
	t->last_pointer = (uint64_t)p;
	uint32_t regime = mt_light_take(t, p, size, call);
	if (!regime)
		return p;
	if (!is_wanted(size)) {
		mt_light_add(&t->stats->left_by_size, 1);
		return p;
	}
	void *guarded = mt_rt.guard_bytes ? mt_guard_place(t, p, size, call) : NULL;
	if (guarded) {
		p = guarded;
		t->last_pointer = (uint64_t)p;
	}
	uint32_t cell =
		record_sample(t, (uint64_t)p, size, tag_in(t, regime) + call, caller, source);
	if (guarded)
		mt_guard_made(t, p, cell);
	return p;
}

void *mt_record_alloc(struct mt_thread *t, void *p, size_t size, enum mt_state_call call,
		      const struct mt_caller *caller, uint64_t source)
{
	if (MT_UNLIKELY(t->light))
		return record_light(t, p, size, call, caller, source);
	mt_thread_event(t);
	if (MT_UNLIKELY(!is_wanted(size))) {
		count_filtered(t, (uint64_t)p, size);
		return p;
	}
	uint32_t *slot = mt_fast_slot((uint64_t)p);
	uint32_t cell = find_cell(t, t->tag + call, source, caller);
	if (MT_UNLIKELY(!mt_is_plain(size) ||
			!mt_fast_alloc(t, slot, (uint64_t)p, size, cell, MT_FAST_ANY)))
		count_in_cell(t, (uint64_t)p, size, cell);
	if (MT_UNLIKELY(mt_rt.options.verify) && cell && !t->verify_in--)
		mt_verify_capture(t, cell);
	return p;
}

void mt_record_without_stack(struct mt_thread *t, const void *p, size_t size)
{
	count_block(t, (uint64_t)p, size, 0);
}

/* The end of a malloc whose cell is known. slot: of the block, as of mt_fast_slot(). */
MT_INLINE void *enter_in_cell(struct mt_thread *t, void *p, size_t size, uint32_t *slot,
			      uint32_t cell)
{
	if (MT_UNLIKELY(!mt_fast_alloc(t, slot, (uint64_t)p, size, cell, MT_FAST_ANY)))
		count_in_cell(t, (uint64_t)p, size, cell);
	mt_leave(t);
	return p;
}

void *mt_record_malloc(struct mt_thread *t, void *p, size_t size, uintptr_t sp, uintptr_t ra,
		       uintptr_t fp)
{
	struct mt_caller caller = {sp, ra, fp};
	if (MT_UNLIKELY(!p || t->until_tick || t->settle || mt_control_changed(t) || t->light ||
			!mt_recording() || !mt_is_plain(size)))
		return mt_finish_alloc(t, p, size, MT_CALL_MALLOC, &caller, 0);
	/* only the clock was due */
	mt_thread_tick(t);
	uint32_t *slot = mt_fast_slot((uint64_t)p);
	return enter_in_cell(t, p, size, slot, find_cell(t, t->tag + MT_CALL_MALLOC, 0, &caller));
}

void *mt_record_malloc_unknown(struct mt_thread *t, void *p, size_t size, uintptr_t sp,
			       uintptr_t ra, uintptr_t fp)
{
	uint64_t tag = t->tag + MT_CALL_MALLOC;
	uint32_t *slot = mt_index_find((uint64_t)p); /* the hook has asked for it */
	uint32_t cell = mt_capture_unknown(&t->capture, sp, ra, fp, tag);
	if (!cell)
		cell = mt_site_cell(t, tag, 0);
	return enter_in_cell(t, p, size, slot, cell);
}

void *mt_record_malloc_in_cell(struct mt_thread *t, void *p, size_t size, uint32_t cell)
{
	count_in_cell(t, (uint64_t)p, size, cell);
	mt_leave(t);
	return p;
}

int mt_record_find(const void *p, struct mt_gone *ret_gone)
{
	const uint32_t *slot = mt_index_find((uint64_t)p);
	uint32_t r = slot ? __atomic_load_n(slot, __ATOMIC_RELAXED) & ~MT_SLOT_SAMPLED : 0;
	const struct mt_state_live *l = &mt_rt.live[r];
	struct mt_state_large large;
	if (MT_LIKELY(r && l->place == (uint64_t)p)) {
		*ret_gone = (struct mt_gone){.size = l->size, .cell = l->cell};
		return 1;
	}
	if (!mt_large_find((uint64_t)p, MT_HEAP_MALLOC, &large))
		return 0;
	*ret_gone = (struct mt_gone){.size = large.size, .cell = large.cell};
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

/* Whether STATS counts the block: it counts all that the tables know nothing of, and samples. */
static int is_counted(int known, uint32_t cell)
{
	return __atomic_load_n(&mt_rt.counting, __ATOMIC_RELAXED) && (!known || regime_of(cell));
}

int mt_record_take(struct mt_thread *t, const void *p, struct mt_gone *ret_gone)
{
	int known = take_block(p, ret_gone);
	if (!known)
		forget_nested(t, p);
	ret_gone->address = (uint64_t)p;
	ret_gone->counted = (uint32_t)is_counted(known, ret_gone->cell);
	if (MT_UNLIKELY(ret_gone->counted))
		ret_gone->counted = (uint32_t)mt_light_going(t, p, &ret_gone->usable);
	return known;
}

void mt_record_restore(struct mt_thread *t, const void *p, const struct mt_gone *gone)
{
	enter_block(t, (uint64_t)p, gone);
}

/* The freeing thread's cell for another thread's block. 0: no room, or the block has none. */
MT_NOINLINE static uint32_t foreign_cell(struct mt_thread *t, uint32_t cell)
{
	return cell ? mt_site_cell_for_free(t, mt_rt.cells[cell].site) : 0;
}

/* Freed before the thread's next allocation. */
static int is_temporary(const struct mt_thread *t, const struct mt_gone *gone, int sampled)
{
	if (sampled)
		return t->stats && gone->sequence == mt_light_moment(t);
	return gone->sequence == (uint32_t)t->row->totals[MT_CLASS_MALLOC].allocs;
}

void mt_record_gone(struct mt_thread *t, const struct mt_gone *gone, int is_realloc)
{
	struct mt_state_totals *sum = &t->row->totals[MT_CLASS_MALLOC];
	const struct mt_state_regime *regime = regime_of(gone->cell);
	uint32_t cell = gone->cell;
	if (regime) /* rare: a sample */
		mt_thread_read_clock();
	else
		mt_thread_event(t);
	if (mt_rt.cells[cell].thread != t->number) {
		cell = foreign_cell(t, cell);
	} else if (!is_realloc && is_temporary(t, gone, regime != NULL)) {
		mt_count(&t->row->temporaries, 1);
		mt_rt.cells[cell].temporaries++;
	}
	uint64_t weight = weigh_free(t, regime, cell, gone->size);
	mt_count(&sum->frees, 1);
	mt_count(&sum->freed_bytes, weight);
	if (cell)
		count_cell_free(&mt_rt.cells[cell], weight, gone->unit, 1);
	count_live(t->row);
	/* what was sampled has its number from another count */
	if (MT_UNLIKELY(t->streaming) && gone->cell && !regime_of(gone->cell))
		mt_stream_free(t, gone->cell, gone->sequence);
	if (gone->record)
		give_record(t, gone->record);
	if (MT_UNLIKELY(gone->counted))
		mt_light_gone(t, (const void *)gone->address, gone->usable);
}

void mt_record_unknown(struct mt_thread *t, const struct mt_gone *gone)
{
	if (gone->counted)
		mt_light_gone(t, (const void *)gone->address, gone->usable);
	else
		mt_count(&t->row->unknown_frees, 1);
}

MT_NOINLINE void mt_record_free(struct mt_thread *t, const void *p)
{
	struct mt_gone gone = {0};
	if (MT_UNLIKELY(mt_control_changed(t)))
		mt_control_take(t);
	if (mt_record_take(t, p, &gone))
		mt_record_gone(t, &gone, 0);
	else
		mt_record_unknown(t, &gone);
}

struct mt_thread *mt_record_free_entered(enum mt_enter how, struct mt_thread *t, const void *p)
{
	if (how == MT_ENTER_NESTED)
		mt_record_free_nested(t, p);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK))
		return NULL;
	mt_record_free(t, p);
	return t;
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
	if (how == MT_ENTER_PASS && mt_check.state != MT_CHECK_OFF)
		mt_foreign_add(p); /* while the tracker starts, say */
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
	int known = mt_record_take(t, p, &gone);
	if ((uint64_t)p == t->going) /* mimalloc's realloc comes back through free() */
		gone.counted = 0;
	if (gone.counted && t->stats) /* published when the outer call, or a later one, does */
		mt_light_count_free(t, mt_light_any_class(t, gone.usable), gone.usable);
	if (!known)
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

/* The original; what it frees nested of the old block is the present call's to count. */
static void *call_realloc(struct mt_thread *t, const struct mt_realloc *r)
{
	uint64_t outer = t->going;
	t->going = (uint64_t)r->old;
	void *p = r->call(r);
	t->going = outer;
	return p;
}

/* how: not TRACK. */
static void *realloc_uncounted(enum mt_enter how, struct mt_thread *t, const struct mt_realloc *r)
{
	if (how != MT_ENTER_NESTED)
		return mt_record_nested(how, t, r->call(r));
	if (r->old)
		mt_record_free_nested(t, r->old);
	void *p = call_realloc(t, r);
	if (r->old && !p && r->size)
		mt_rt_lost(MT_LOST_NESTED); /* the old block lives, unrecorded */
	return mt_record_nested(how, t, p);
}

void *mt_record_realloc(enum mt_enter how, struct mt_thread *t, const struct mt_realloc *r,
			const struct mt_caller *caller, uint64_t source)
{
	struct mt_gone gone = {0};
	if (mt_guard_holds(r->old))
		return mt_guard_realloc(how, t, r, caller, source);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK))
		return realloc_uncounted(how, t, r);
	int known = r->old && mt_record_take(t, r->old, &gone);
	void *p = call_realloc(t, r);
	if (!p && r->size && r->old) { /* failed: the old block is as it was */
		if (known)
			mt_record_restore(t, r->old, &gone);
		return mt_finish_alloc(t, p, r->size, MT_CALL_REALLOC, caller, source);
	}
	if (known)
		mt_record_gone(t, &gone, 1);
	else if (r->old)
		mt_record_unknown(t, &gone);
	if (!p && r->old) { /* freed by size 0 */
		mt_leave(t);
		return p;
	}
	if (MT_UNLIKELY(t->streaming) && known && gone.cell)
		mt_stream_before_realloc(t);
	if (r->old) {
		mt_count(&t->row->reallocs, 1);
		uint64_t was = gone.counted ? gone.usable : gone.size; /* 0: not known */
		mt_count(&t->row->realloc_grown, was && r->size > was);
	}
	return mt_finish_alloc(t, p, r->size, MT_CALL_REALLOC, caller, source);
}

void mt_record_watch(void)
{
	struct mt_thread *t = mt_thread_self();
	if (t)
		t->last_pointer = 0;
}

void *mt_record_unseen(void *p, size_t size, enum mt_state_call call,
		       const struct mt_caller *caller)
{
	struct mt_thread *t;
	if (!p || mt_enter(&t) != MT_ENTER_TRACK)
		return p;
	if (t->last_pointer != (uint64_t)p && mt_recording())
		p = mt_record_alloc(t, p, size, call, caller, 0);
	mt_leave(t);
	return p;
}

/* --- other heaps --------------------------------------------------------------------------- */

static enum mt_state_heap_class class_of(uint32_t heap)
{
	return heap < MT_HEAP_FIRST_CUSTOM ? (enum mt_state_heap_class)heap : MT_CLASS_CUSTOM;
}

/*
 * A block of another heap, in the regime. Stacks are left out in statistics mode. *ret_cell: 0 when
 * there is none.
 */
static void count_other(struct mt_thread *t, uint32_t heap, uint64_t size, uint64_t tag,
			const struct mt_caller *caller, uint32_t *ret_cell)
{
	struct mt_state_totals *sum = &t->row->totals[class_of(heap)];
	int no_stacks = t->light && !(t->tag & MT_TAG_REGIME);
	uint32_t cell = no_stacks ? 0 : find_cell(t, tag, 0, caller);
	uint64_t weight = weigh_alloc(t, cell, size);
	t->excluded = 0;
	sum->allocs++;
	sum->bytes += weight;
	if (cell)
		count_cell_alloc(&mt_rt.cells[cell], size, weight);
	*ret_cell = cell;
}

uint32_t mt_record_mapping_alloc(struct mt_thread *t, uint32_t heap, uint64_t size,
				 enum mt_state_call call, const struct mt_caller *caller)
{
	uint32_t cell;
	if (MT_UNLIKELY(mt_control_changed(t)))
		mt_control_take(t);
	mt_thread_tick(t);
	count_other(t, heap, size, tag_in(t, 0) | mt_site_tag(call, heap, 0), caller, &cell);
	return cell;
}

void mt_record_mapping_gone(struct mt_thread *t, uint32_t heap, uint32_t cell, uint64_t size,
			    uint32_t unit, int whole)
{
	struct mt_state_totals *sum = &t->row->totals[class_of(heap)];
	mt_thread_read_clock();
	sum->frees += (uint64_t)whole;
	sum->freed_bytes += size;
	if (mt_rt.cells[cell].thread != t->number)
		cell = foreign_cell(t, cell);
	if (cell)
		count_cell_free(&mt_rt.cells[cell], size, unit, whole);
}

/* In sampling mode one that is not sampled leaves no trace. */
void mt_record_custom_alloc(struct mt_thread *t, uint32_t heap, const void *p, size_t size,
			    const struct mt_caller *caller)
{
	uint32_t regime = 0, cell;
	if (MT_UNLIKELY(mt_control_changed(t)))
		mt_control_take(t);
	if (t->light && t->points[MT_RANGES_MAX].regime) {
		regime = mt_light_take_custom(t, size);
		if (!regime)
			return;
	}
	mt_thread_tick(t);
	count_other(t, heap, size, tag_in(t, regime) | mt_site_tag(MT_CALL_CUSTOM, heap, 0), caller,
		    &cell);
	if (regime && !cell) /* nobody could weigh it when it goes */
		return;
	if (!mt_large_insert((uint64_t)p, heap, size, cell, mt_now(), 0)) {
		if (regime && t->stats)
			mt_light_add(&t->stats->no_block, 1);
		else
			mt_rt_lost(MT_LOST_LIVE_FULL);
	} else if (regime)
		mt_filter_add((uint64_t)p);
}

void mt_record_custom_free(struct mt_thread *t, uint32_t heap, const void *p)
{
	struct mt_state_large l;
	/* most are not sampled: no lock is taken for them */
	int sampling = t->light && t->points[MT_RANGES_MAX].regime;
	if (sampling && !mt_rt.filter[mt_filter_slot((uint64_t)p)])
		return;
	if (!mt_large_remove((uint64_t)p, heap, &l)) {
		t->row->unknown_frees += !mt_rt.counting; /* else: it was not sampled */
		return;
	}
	const struct mt_state_regime *regime = regime_of(l.cell);
	mt_thread_read_clock();
	if (regime)
		mt_filter_remove((uint64_t)p);
	uint32_t cell = l.cell;
	if (mt_rt.cells[cell].thread != t->number)
		cell = foreign_cell(t, cell);
	uint64_t weight = weigh_free(t, regime, cell, l.size);
	struct mt_state_totals *sum = &t->row->totals[class_of(heap)];
	sum->frees++;
	sum->freed_bytes += weight;
	if (cell)
		count_cell_free(&mt_rt.cells[cell], weight, l.unit, 1);
}
