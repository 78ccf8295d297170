/* SPDX-License-Identifier: MIT */
/*
 * malloc and free of check mode where the options are the usual ones: no guards (bare), or guards
 * of the usual size. An ordinary block costs what its options need and nothing for the others. What
 * is not ordinary, or not as it should be, is found out before anything is changed, and goes the
 * way of all calls in check.c; after the allocator gave a block only mt_check_finish_malloc() can
 * take over.
 */
#include "runtime/check.h"
#include "runtime/check_block.h"
#include "runtime/check_claim.h"
#include "runtime/check_mark.h"
#include "runtime/check_signal.h"
#include "runtime/errors.h"
#include "runtime/fast.h"
#include "runtime/foreign.h"
#include "runtime/quarantine.h"
#include "runtime/sites.h"

#define REAL (&mt_original[MT_FAMILY_PLAIN])

/* What the options make of a block: bits, constants where these functions are inlined. */
enum dress {
	BARE = 0,
	GUARDED = 1,
	WATCHED = 2, /* filled when it comes or goes, or held back */
};

/* --- which way ----------------------------------------------------------------------------- */

/* Of the options all that these ways know nothing of. */
static int is_usual(const struct mt_check_options *o)
{
	const uint32_t others =
		MT_CHECK_EXPAND_ALLOC | MT_CHECK_RECORD_ALLOCS | MT_CHECK_GUARD_PAGE;
	return !(o->flags & others) && !mt_check.limited && !o->heap_every && !o->backtrace_min &&
	       o->backtrace_max >= MT_LARGE_BYTES;
}

/* Sizes below MT_LARGE_BYTES are recorded as they come. */
static int is_ordinary_process(void)
{
	return !mt_rt.plain_from && mt_rt.plain_span >= MT_LARGE_BYTES && !mt_rt.guard_bytes;
}

uint32_t mt_check_way(const struct mt_thread *t)
{
	const struct mt_layout *l = &mt_layout;
	int watches = (mt_check.options.flags &
		       (MT_CHECK_FREE_TRACK | MT_CHECK_FILL_ON_FREE | MT_CHECK_FILL_ON_ALLOC)) != 0;
	if (!is_usual(&mt_check.options) || !is_ordinary_process() || t->light || t->streaming)
		return MT_WAY_CHECK;
	if (!l->has_header)
		return watches ? MT_WAY_CHECK_WATCHED : MT_WAY_CHECK_BARE;
	if (l->front != MT_GUARD_USUAL || l->rear != MT_GUARD_USUAL)
		return MT_WAY_CHECK;
	return watches ? MT_WAY_CHECK_GUARDED_WATCHED : MT_WAY_CHECK_GUARDED;
}

/* How much of a live block is the program's. 0: the allocator does not tell. */
MT_INLINE uint64_t usable_of(const void *p, enum dress dress)
{
	if (dress & GUARDED)
		return mt_header_of_usual(p)->usable;
	return MT_LIKELY(REAL->malloc_usable_size != NULL) ? REAL->malloc_usable_size(p) : 0;
}

/* --- malloc -------------------------------------------------------------------------------- */

/* The caller in three words, so that an ordinary call need not have it in memory. */
#define CALLER_PARAMETERS uintptr_t sp, uintptr_t ra, uintptr_t fp
#define CALLER_OF(c) (c).sp, (c).ra, (c).fp

MT_NOINLINE static void *malloc_otherwise(size_t size, enum mt_state_call call, CALLER_PARAMETERS)
{
	struct mt_caller c = {sp, ra, fp};
	return call == MT_CALL_CALLOC ? mt_check_calloc(1, size, &c, 0)
				      : mt_check_malloc(size, call, &c, 0);
}

/* Not aligned as a block is, so that its header would not be either. */
MT_COLD static void *malloc_again(struct mt_thread *t, void *original, size_t size,
				  enum mt_state_call call, CALLER_PARAMETERS)
{
	REAL->free(original);
	mt_leave(t);
	return malloc_otherwise(size, call, sp, ra, fp);
}

MT_NOINLINE static void *finish_otherwise(struct mt_thread *t, void *original, size_t size,
					  enum mt_state_call call, CALLER_PARAMETERS)
{
	return mt_check_finish_malloc(t, original, size, call, &(struct mt_caller){sp, ra, fp});
}

MT_NOINLINE static void *enter_without_stack(struct mt_thread *t, void *p, size_t size)
{
	mt_record_without_stack(t, p, size);
	mt_leave(t);
	return p;
}

/* Of a stack that the memo does not know. */
MT_NOINLINE static void *enter_unknown(struct mt_thread *t, void *p, size_t size, uint32_t call,
				       CALLER_PARAMETERS)
{
	uint64_t tag = t->tag + call;
	uint32_t *slot = mt_index_find((uint64_t)p);
	uint32_t cell = mt_capture_unknown(&t->capture, sp, ra, fp, tag);
	if (!cell)
		cell = mt_site_cell(t, tag, 0);
	if (MT_UNLIKELY(!mt_fast_alloc(t, slot, (uint64_t)p, size, cell, MT_FAST_FULL)))
		return mt_record_malloc_in_cell(t, p, size, cell);
	mt_leave(t);
	return p;
}

/* Sizes that the table has at once; 0 is for the others. */
MT_INLINE int is_small(size_t size)
{
	return size - 1 < MT_LARGE_BYTES - 1;
}

/* Header and guards in front of and behind a block. */
MT_INLINE void *dress_up(void *original, size_t size, enum mt_state_call call)
{
	uint32_t flags = MT_LIKELY(call == MT_CALL_MALLOC) ? 0 : mt_header_flags(call);
	return mt_block_dress_usual(original, size, flags);
}

MT_INLINE void fill_new(void *p, size_t size, enum dress dress)
{
	uint64_t usable = MT_MAX(usable_of(p, dress), (uint64_t)size);
	mt_mem_fill(p, MT_BYTE_ALLOC, MT_MIN(usable, mt_check.options.fill_on_alloc));
}

MT_COLD static void *settle_and_return(void *p)
{
	mt_settle();
	return p;
}

MT_INLINE void *call_original(size_t size, enum mt_state_call call, enum dress dress)
{
	size_t total = size + (dress & GUARDED ? MT_BLOCK_USUAL_EXTRA : 0);
	return call == MT_CALL_CALLOC ? REAL->calloc(1, total) : REAL->malloc(total);
}

/* Inlined into a hook, whose caller it sees. is_calloc: a constant, as dress is. */
MT_INLINE void *make(size_t size, int is_calloc, enum dress dress)
{
	uintptr_t sp = (uintptr_t)__builtin_dwarf_cfa();
	struct mt_thread *t;
	uint32_t cell;
	size_t given = size;
	enum mt_state_call call =
		is_calloc ? MT_CALL_CALLOC : mt_check_called(MT_CALL_MALLOC, &given, 0, sp);
	if (MT_UNLIKELY(!is_small(size) || mt_check_is_due() || !(t = mt_enter_quick(sp)))) {
		struct mt_caller early = MT_CALLER();
		return malloc_otherwise(size, call, CALLER_OF(early));
	}
	void *p = call_original(size, is_calloc ? MT_CALL_CALLOC : MT_CALL_MALLOC, dress);
	uint32_t *slot = mt_fast_slot((uint64_t)p + (dress & GUARDED ? MT_BLOCK_USUAL_BEFORE : 0));
	struct mt_caller c = MT_CALLER();
	uint32_t control = __atomic_load_n(&mt_rt.hdr->control, __ATOMIC_RELAXED);
	if (dress & GUARDED && MT_UNLIKELY((uintptr_t)p & (MT_BLOCK_ALIGN - 1)))
		return malloc_again(t, p, size, call, CALLER_OF(c));
	if (MT_UNLIKELY(!p || t->settle || control != t->control || !--t->until_tick))
		return finish_otherwise(t, p, size, call, CALLER_OF(c));
	mt_foreign_remove(p);
	if (dress & GUARDED)
		p = dress_up(p, size, call);
	if (dress & WATCHED && !is_calloc && mt_check.options.flags & MT_CHECK_FILL_ON_ALLOC)
		fill_new(p, size, dress);
	if (!mt_check_captures()) {
		if (MT_UNLIKELY(!mt_fast_alloc_bare(t, slot, (uint64_t)p, size)))
			return enter_without_stack(t, p, size);
	} else {
		if (MT_UNLIKELY(!mt_capture_known(&t->capture, CALLER_OF(c), t->tag + call, &cell)))
			return enter_unknown(t, p, size, call, CALLER_OF(c));
		if (MT_UNLIKELY(!mt_fast_alloc(t, slot, (uint64_t)p, size, cell, MT_FAST_FULL)))
			return mt_record_malloc_in_cell(t, p, size, cell);
	}
	return mt_leave_quick(t) ? settle_and_return(p) : p;
}

MT_NOINLINE void *mt_check_bare_malloc_hook(size_t size)
{
	return make(size, 0, BARE);
}

MT_NOINLINE void *mt_check_guarded_malloc_hook(size_t size)
{
	return make(size, 0, GUARDED);
}

MT_NOINLINE void *mt_check_watched_malloc_hook(size_t size)
{
	return make(size, 0, WATCHED);
}

MT_NOINLINE void *mt_check_guarded_watched_malloc_hook(size_t size)
{
	return make(size, 0, GUARDED | WATCHED);
}

MT_NOINLINE void *mt_check_calloc_hook(size_t n, size_t each)
{
	const struct mt_thread *t = mt_thread_self();
	size_t size;
	if (MT_UNLIKELY(!t || t->other_way == MT_WAY_CHECK || mt_mul_size(n, each, &size))) {
		struct mt_caller c = MT_CALLER();
		return mt_check_calloc(n, each, &c, 0);
	}
	/* no fill is for it: */
	return mt_layout.has_header ? make(size, 1, GUARDED) : make(size, 1, BARE);
}

/* --- free ---------------------------------------------------------------------------------- */

/* t: its guard is held, or NULL. */
MT_NOINLINE static void free_otherwise(struct mt_thread *t, void *p, enum mt_state_call call,
				       CALLER_PARAMETERS)
{
	if (t)
		mt_leave(t);
	mt_check_free(p, call, &(struct mt_caller){sp, ra, fp});
}

/* Nothing to report of the block that record r tells of: it may go by this call. */
MT_INLINE int is_in_order(const void *p, uint32_t r, enum mt_state_call call, enum dress dress)
{
	if (!(dress & GUARDED)) {
		uint32_t has_new = MT_PEEK(&mt_rt.has_new);
		return MT_LIKELY(call == MT_CALL_FREE && !has_new) ||
		       mt_check_goes_with(mt_check_made_by(mt_rt.live[r].cell), call);
	}
	const struct mt_header *h = mt_header_of_usual(p);
	uint32_t made_by_new = h->flags & (MT_HEADER_NEW | MT_HEADER_NEW_ARRAY);
	return mt_header_is_good(h, p) &&
	       (MT_LIKELY(call == MT_CALL_FREE && !made_by_new) ||
		mt_check_goes_with(mt_header_made_by(h), call)) &&
	       mt_guard_usual_holds((const char *)p - MT_GUARD_USUAL, MT_BYTE_FRONT) &&
	       mt_guard_usual_holds((const char *)p + h->size, MT_BYTE_REAR);
}

/* Another thread's block, say. 0: it has gone meanwhile. */
MT_NOINLINE static int leave_table_slow(struct mt_thread *t, const void *p)
{
	struct mt_gone gone = {0};
	if (MT_UNLIKELY(!mt_record_take(t, p, &gone)))
		return 0;
	mt_record_gone(t, &gone, 0);
	return 1;
}

MT_INLINE int leave_table(struct mt_thread *t, const void *p, uint32_t *slot, uint32_t r)
{
	if (MT_LIKELY(mt_rt.live[r].cell ? mt_fast_free_found(t, slot, r, MT_FAST_FULL)
					 : mt_fast_free_bare(t, slot, r)))
		return 1;
	return leave_table_slow(t, p);
}

/* The block's own place; header: as of GUARDED. */
MT_INLINE void *undress(void *p, enum dress dress)
{
	if (!(dress & GUARDED))
		return p;
	struct mt_header *h = mt_header_of_usual(p);
	h->tag = MT_TAG_FREED;
	return mt_header_original(h, p);
}

/* What is known of a block that is about to go. */
MT_INLINE struct mt_held held_of(const void *p, uint32_t r, enum dress dress)
{
	const struct mt_state_live *l = &mt_rt.live[r];
	uint64_t usable = MT_MAX(usable_of(p, dress), (uint64_t)l->size);
	return (struct mt_held){
		.p = (uint64_t)p,
		.size = l->size,
		.usable = usable,
		.filled = mt_check.options.flags & MT_CHECK_FILL_ON_FREE
				  ? MT_MIN(usable, mt_check.options.fill_on_free)
				  : 0,
		.has_header = (dress & GUARDED) != 0,
		.alloc_call = dress & GUARDED ? mt_header_made_by(mt_header_of_usual(p))
					      : mt_check_made_by(l->cell),
		.alloc_cell = l->cell,
		.pid = mt_rt.pid,
	};
}

/* The block has left the table: it is filled and held back, as far as the options say so. */
MT_INLINE void let_go(struct mt_thread *t, struct mt_held *h, uint64_t *claim, enum dress dress,
		      const struct mt_caller *c)
{
	int is_held = 0;
	const struct mt_check_options *o = &mt_check.options;
	void *original = undress((void *)h->p, dress);
	mt_mem_fill((void *)h->p, MT_BYTE_FREE, h->filled);
	if (o->flags & MT_CHECK_FREE_TRACK) {
		uint32_t node = o->free_frames ? mt_stack_node(&t->free_capture, c) : 0;
		h->original = (uint64_t)original;
		h->free = mt_actor_of_event(t, node);
		is_held = !mt_quarantine_add(t, h);
	}
	/* who frees it again finds it held back; and before the allocator may give it again */
	mt_check_unclaim(claim);
	if (!is_held)
		REAL->free(original);
}

MT_INLINE void do_free(void *p, enum dress dress)
{
	struct mt_caller c = MT_CALLER();
	uint32_t *slot;
	size_t given = (size_t)p;
	if (!p)
		return;
	enum mt_state_call call = mt_check_called(MT_CALL_FREE, &given, 0, c.sp);
	struct mt_thread *t = mt_enter_quick(c.sp);
	if (MT_UNLIKELY(!t || mt_check_is_due())) {
		free_otherwise(t, p, call, CALLER_OF(c));
		return;
	}
	uint64_t *claim = mt_check_claim(p);
	uint32_t r = mt_fast_find((uint64_t)p, &slot);
	int is_ordinary = r && is_in_order(p, r, call, dress);
	if (dress & WATCHED && MT_LIKELY(is_ordinary)) {
		struct mt_held h = held_of(p, r, dress);
		if (MT_LIKELY(leave_table(t, p, slot, r))) {
			let_go(t, &h, claim, dress, &c);
			mt_check_leave(t);
			return;
		}
		is_ordinary = 0;
	}
	if (MT_UNLIKELY(!is_ordinary || !leave_table(t, p, slot, r))) {
		mt_check_unclaim(claim);
		free_otherwise(t, p, call, CALLER_OF(c));
		return;
	}
	mt_check_unclaim(claim); /* before the allocator may hand the address out again */
	REAL->free(undress(p, dress));
	mt_leave(t);
}

MT_NOINLINE void mt_check_bare_free_hook(void *p)
{
	do_free(p, BARE);
}

MT_NOINLINE void mt_check_guarded_free_hook(void *p)
{
	do_free(p, GUARDED);
}

MT_NOINLINE void mt_check_watched_free_hook(void *p)
{
	do_free(p, WATCHED);
}

MT_NOINLINE void mt_check_guarded_watched_free_hook(void *p)
{
	do_free(p, GUARDED | WATCHED);
}

/* --- malloc_usable_size -------------------------------------------------------------------- */

/* 1: *ret_usable of a block that is in order. Guard held. */
MT_INLINE int find_usable(const void *p, size_t *ret_usable)
{
	uint32_t *slot;
	if (!mt_fast_find((uint64_t)p, &slot))
		return 0;
	if (!mt_layout.has_header) {
		*ret_usable = REAL->malloc_usable_size ? REAL->malloc_usable_size(p) : 0;
		return *ret_usable != 0;
	}
	const struct mt_header *h = mt_header_of_usual(p);
	*ret_usable = h->usable;
	return mt_header_is_good(h, p);
}

MT_NOINLINE size_t mt_check_usable_size_hook(const void *p)
{
	struct mt_caller c = MT_CALLER();
	struct mt_thread *t = mt_check_is_due() ? NULL : mt_enter_quick(c.sp);
	size_t usable = 0;
	if (MT_LIKELY(t != NULL)) {
		int is_found = t->other_way != MT_WAY_CHECK && find_usable(p, &usable);
		mt_leave(t);
		if (MT_LIKELY(is_found))
			return usable;
	}
	return mt_check_usable_size(p, &c);
}
