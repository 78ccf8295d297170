/* SPDX-License-Identifier: MIT */
/*
 * The malloc family in check mode; see check.h. Order as everywhere: an allocation enters the
 * tables after the real call, a free leaves them before it. What a program gives us is not touched
 * before a table or a safe read says that it is there.
 */
#include "runtime/check.h"

#include "core/sys.h"
#include "elf/loader.h"
#include "runtime/backtrace.h"
#include "runtime/check_block.h"
#include "runtime/check_claim.h"
#include "runtime/check_heap.h"
#include "runtime/check_mark.h"
#include "runtime/check_report.h"
#include "runtime/check_signal.h"
#include "runtime/check_sites.h"
#include "runtime/check_untracked.h"
#include "runtime/errors.h"
#include "runtime/fast.h"
#include "runtime/foreign.h"
#include "runtime/guard.h"
#include "runtime/heap_dump.h"
#include "runtime/lock.h"
#include "runtime/program_errno.h"
#include "runtime/quarantine.h"
#include "runtime/record_text.h"
#include "runtime/sites.h"
#include "runtime/storage.h"

enum { ALIGN_MOST = 1 << 30 };

/* What is asked for and added together stay below PTRDIFF_MAX. */
#define SIZE_MOST ((size_t)PTRDIFF_MAX - 3 * (size_t)ALIGN_MOST)

uint64_t mt_check_claims[MT_CLAIMS];

#define REAL (&mt_original[MT_FAMILY_PLAIN])

/* --- state --------------------------------------------------------------------------------- */

void mt_check_forget(void)
{
	mt_quarantine_forget();
	mt_backtrace_forget();
	mt_check_signals_forget();
	mt_check_sites_forget();
	mt_record_text_child();
	mt_heap_dump_forget();
	mt_mem_zero(mt_check_claims, sizeof(mt_check_claims));
}

/* --- blocks -------------------------------------------------------------------------------- */

/* A request, with what the layout adds. */
struct request {
	size_t size, align;
	enum mt_state_call call;
	int zeroed;
	const struct mt_caller *caller;
	uint64_t source;
	struct mt_record_text *text; /* gets the times of the allocator's call; NULL: unrecorded */
};

static struct mt_record_text text_of(enum mt_record_text_type type, const void *p, size_t size)
{
	return (struct mt_record_text){
		.type = type, .pointer = p, .size = size, .present = MT_PRESENT_UNKNOWN};
}

static size_t round_align(size_t align)
{
	size_t a = MT_BLOCK_ALIGN;
	while (a < align && a << 1)
		a <<= 1;
	return a;
}

MT_INLINE void *call_original(const struct request *r, size_t total)
{
	if (MT_LIKELY(!r->zeroed && r->align == MT_BLOCK_ALIGN))
		return REAL->malloc(total);
	if (r->zeroed)
		return REAL->calloc(1, total);
	if (r->align > MT_BLOCK_ALIGN && !mt_layout.has_header)
		return REAL->memalign ? REAL->memalign(r->align, total)
				      : mt_errno_refuse(MT_ENOMEM);
	return REAL->malloc(total);
}

MT_COLD static void *call_original_timed(const struct request *r, size_t total)
{
	r->text->start_ns = mt_record_text_now();
	void *p = call_original(r, total);
	r->text->end_ns = mt_record_text_now();
	return p;
}

MT_INLINE void *ask_original(const struct request *r, size_t total)
{
	return MT_UNLIKELY(r->text != NULL) ? call_original_timed(r, total)
					    : call_original(r, total);
}

/* No allocator is known that does so with blocks of this size. */
MT_COLD static void *take_unaligned(const struct request *r, void *original, size_t total)
{
	REAL->free(original);
	return ask_original(r, total + MT_BLOCK_ALIGN);
}

/* A block as the allocator gives it. NULL: errno is set. */
MT_INLINE void *take_original(const struct request *r)
{
	size_t more = mt_layout.extra;
	if (mt_layout.has_header && r->align > MT_BLOCK_ALIGN)
		more += r->align;
	if (MT_UNLIKELY(r->size > SIZE_MOST || r->align > ALIGN_MOST))
		return mt_errno_refuse(MT_ENOMEM);
	size_t total = r->size + more;
	void *p = ask_original(r, total);
	if (mt_layout.has_header && MT_UNLIKELY((uintptr_t)p & (MT_BLOCK_ALIGN - 1)))
		p = take_unaligned(r, p, total);
	return p;
}

/* What is held back must not be what the program lacks. errno may tell of the first try. */
MT_COLD static void *take_original_again(struct mt_thread *t, const struct request *r)
{
	return mt_quarantine_give_back(t, r->size) ? take_original(r) : NULL;
}

/* Of a block that has this size; a static program may have no malloc_usable_size(). */
MT_INLINE uint64_t usable_of(const void *p, uint64_t size)
{
	if (mt_layout.has_header)
		return mt_header_of(p)->usable;
	return REAL->malloc_usable_size ? REAL->malloc_usable_size(p) : size;
}

static int is_size_left_out(size_t size)
{
	return size < mt_check.options.only_min || size > mt_check.options.only_max;
}

/* 1: this block is not to be checked. */
MT_INLINE int is_left_out(struct mt_thread *t, const struct request *r)
{
	const struct mt_check_options *o = &mt_check.options;
	return MT_UNLIKELY(mt_check.limited) &&
	       (is_size_left_out(r->size) ||
		(o->only_modules[0] && !mt_check_sites_have(t, MT_SITES_MODULES, r->caller)) ||
		(o->only_sites[0] && !mt_check_sites_have(t, MT_SITES_ONLY, r->caller)));
}

/* New bytes [from, usable) of a block get their pattern. */
MT_INLINE void fill_new(void *p, uint64_t from, uint64_t size)
{
	if (MT_LIKELY(!(mt_check.options.flags & MT_CHECK_FILL_ON_ALLOC)))
		return;
	uint64_t to = MT_MIN(usable_of(p, size), mt_check.options.fill_on_alloc);
	if (from < to)
		mt_mem_fill((char *)p + from, MT_BYTE_ALLOC, to - from);
}

MT_INLINE int wants_stack(size_t size)
{
	return mt_check_captures() && size >= mt_check.options.backtrace_min &&
	       size <= mt_check.options.backtrace_max;
}

MT_INLINE void enter_without_stack(struct mt_thread *t, const void *p, size_t size)
{
	mt_thread_event(t);
	if (MT_UNLIKELY(!mt_fast_alloc_bare(t, mt_index_find((uint64_t)p), (uint64_t)p, size)))
		mt_record_without_stack(t, p, size);
}

MT_INLINE void enter_table(struct mt_thread *t, void *p, const struct request *r)
{
	if (MT_UNLIKELY(mt_control_changed(t)))
		mt_control_take(t);
	if (wants_stack(r->size))
		mt_record_alloc(t, p, r->size, r->call, r->caller, r->source);
	else
		enter_without_stack(t, p, r->size);
}

/* 1: this block's turn has come to lie against an inaccessible page. */
MT_INLINE int wants_page(struct mt_thread *t, const struct request *r)
{
	const struct mt_check_options *o = &mt_check.options;
	if (MT_LIKELY(!(o->flags & MT_CHECK_GUARD_PAGE)) ||
	    (o->guard_page_sites[0] && !mt_check_sites_have(t, MT_SITES_PAGE, r->caller)) ||
	    t->page_in--)
		return 0;
	t->page_in = o->guard_page - 1;
	if (is_left_out(t, r))
		return 0;
	/* with a header the original is not aligned, and the page would not know */
	return r->align == MT_BLOCK_ALIGN || !mt_layout.has_header;
}

static void enter_with_page(struct mt_thread *t, void *p, const struct request *r)
{
	struct mt_gone gone = {0};
	if (!r->zeroed && mt_check.options.flags & MT_CHECK_FILL_ON_ALLOC)
		mt_mem_fill(p, MT_BYTE_ALLOC,
			    MT_MIN((uint64_t)r->size, mt_check.options.fill_on_alloc));
	enter_table(t, p, r);
	if (mt_record_find(p, &gone))
		mt_guard_made(t, p, gone.cell);
}

/* The original in its place. NULL: it got none, and is dressed as any other. */
MT_COLD static void *give_page(struct mt_thread *t, void *original, struct request r)
{
	enum mt_state_call placed = r.align > MT_BLOCK_ALIGN ? MT_CALL_ALIGNED : r.call;
	void *p = mt_guard_place(t, original, r.size, placed);
	if (p)
		enter_with_page(t, p, &r);
	return p;
}

/* A new block, dressed and known, of what the allocator gave. Guard held. NULL: errno is set. */
MT_INLINE void *make_of(struct mt_thread *t, const struct request *r, void *original)
{
	void *p;
	if (MT_UNLIKELY(!original))
		original = take_original_again(t, r);
	if (MT_UNLIKELY(!original)) {
		mt_count(&t->row->failed_allocs, 1);
		return NULL;
	}
	mt_foreign_remove(original); /* the allocator may have called back (calloc of musl) */
	if (MT_UNLIKELY(t->settle))
		mt_record_returned(t, original);
	if (MT_UNLIKELY(wants_page(t, r)) && (p = give_page(t, original, *r)) != NULL)
		return p;
	p = original;
	int left_out = is_left_out(t, r);
	if (mt_layout.has_header)
		p = mt_block_dress(original, r->size, r->align,
				   mt_header_flags(r->call) | (left_out ? MT_HEADER_UNCHECKED : 0));
	if (!r->zeroed && !left_out)
		fill_new(p, 0, r->size);
	enter_table(t, p, r);
	return p;
}

MT_INLINE void *make_inline(struct mt_thread *t, const struct request *r)
{
	return make_of(t, r, take_original(r));
}

MT_NOINLINE static void *make(struct mt_thread *t, const struct request *r)
{
	return make_inline(t, r);
}

/* What is due before a call: a check of the whole heap, what a signal asked for. */
MT_INLINE void do_what_is_due(struct mt_thread *t, enum mt_state_call call,
			      const struct mt_caller *caller)
{
	struct mt_use use = {.call = call, .caller = caller};
	mt_check_due(t, &use);
	if (MT_UNLIKELY(mt_check.options.heap_every) && !t->heap_check_in--) {
		t->heap_check_in = mt_check.options.heap_every - 1;
		mt_check_heap(t, &use);
	}
}

/* --- what a pointer is --------------------------------------------------------------------- */

enum verdict { IS_OURS, IS_FOREIGN, IS_BAD };

struct block {
	void *p;
	void *original;
	uint64_t size, usable;
	int in_table;
	uint64_t *place;     /* as of mt_check_claim() */
	int left_out;        /* it is not checked */
	uint32_t alloc_call; /* 0: not known */
	uint32_t cell;       /* of the allocation, 0: none */
	uint32_t *slot;      /* of a small block: where the index has its record; else NULL */
	uint32_t record;
};

/* What made the block, as far as its header or its cell knows. */
MT_INLINE uint32_t alloc_call_of(const struct block *b)
{
	if (!mt_layout.has_header)
		return mt_check_made_by(b->cell);
	return mt_header_made_by(mt_header_of(b->p));
}

/* For reports. */
static struct mt_known known_of(const struct block *b)
{
	return (struct mt_known){.p = b->p,
				 .size = b->size,
				 .alloc_call = mt_cell_call(b->cell, b->alloc_call),
				 .alloc = mt_cell_actor(b->cell)};
}

MT_COLD static enum verdict report_header(struct mt_thread *t, const struct mt_use *use,
					  struct block *b)
{
	uint32_t tag = mt_header_of(b->p)->tag;
	b->alloc_call = mt_check_made_by(b->cell);
	struct mt_known known = known_of(b);
	mt_report_bad_pointer(t, use, b->p, tag == MT_TAG_LIVE ? MT_BAD_HEADER : MT_BAD_TAG, tag,
			      &known);
	return IS_BAD;
}

/* The header of a block that is there. */
MT_INLINE enum verdict read_header(struct mt_thread *t, const struct mt_use *use, struct block *b)
{
	const struct mt_header *h = mt_header_of(b->p);
	if (MT_UNLIKELY(!mt_header_is_good(h, b->p)))
		return report_header(t, use, b);
	b->original = mt_header_original(h, b->p);
	b->size = h->size;
	b->usable = h->usable;
	return IS_OURS;
}

/*
 * 1: a block of ours may be in no table: its storage ended, a lock could not be had in time when it
 * was entered or is looked for, or it is the parent's.
 */
static int may_be_unseen(void)
{
	const struct mt_state_header *h = mt_rt.hdr;
	if (mt_rt.phase != MT_RT_ON) /* a child that a signal handler forked inside a hook */
		return 1;
	return mt_foreign_is_full() ||
	       (h->notes & (MT_NOTE_FORK_CHILD | MT_NOTE_STORAGE_ENDED | MT_NOTE_LIMIT_REACHED)) ||
	       h->lost[MT_LOST_LIVE_FULL] || h->lost[MT_LOST_STORAGE] || h->lost[MT_LOST_LOCK];
}

/* The loader frees what it made before it knew of us. */
static int is_loaders(const struct mt_caller *caller)
{
	const struct mt_state_module *all = mt_storage_base(MT_REGION_MODULES);
	const struct mt_module *m = mt_module_list_find(mt_unwind.modules, caller->ra);
	return m && m->number && all[m->number].flags & MT_MODULE_LOADER;
}

/* 1: it may be a block by a function of the allocator that is no hook of ours. */
static int may_be_hidden(const void *p, uint32_t tag)
{
	struct mt_held held;
	int is_ours = tag == MT_TAG_LIVE || tag == MT_TAG_FREED ||
		      (mt_check.options.flags & MT_CHECK_FREE_TRACK &&
		       mt_quarantine_find((uint64_t)p, &held));
	return (mt_provider.has_hidden || mt_foreign_is_full()) && !is_ours;
}

/* A pointer that the table does not know. */
MT_COLD static enum verdict examine_unknown(struct mt_thread *t, const struct mt_use *use,
					    struct block *b)
{
	struct mt_header h = {.tag = 0};
	enum mt_bad_pointer what = MT_BAD_UNKNOWN;
	if (mt_foreign_remove(b->p))
		return IS_FOREIGN;
	if (mt_layout.has_header && !((uintptr_t)b->p & (MT_BLOCK_ALIGN - 1)) &&
	    !mt_loader_read(mt_header_of(b->p), &h, sizeof(h))) {
		if (mt_header_is_good(&h, b->p) && may_be_unseen()) {
			b->original = mt_header_original(&h, b->p);
			b->size = h.size;
			b->usable = h.usable;
			b->in_table = 0;
			return IS_OURS;
		}
		what = h.tag == MT_TAG_FREED  ? MT_BAD_FREED
		       : h.tag == MT_TAG_LIVE ? MT_BAD_UNKNOWN
					      : MT_BAD_TAG;
	}
	if (is_loaders(use->caller))
		return IS_FOREIGN;
	if ((!mt_layout.has_header && may_be_unseen()) || may_be_hidden(b->p, h.tag)) {
		mt_count(&t->row->unknown_frees, 1);
		return IS_FOREIGN;
	}
	mt_report_bad_pointer(t, use, b->p, what, h.tag, NULL);
	return IS_BAD;
}

MT_INLINE int is_verified(void)
{
	return (mt_check.options.flags & MT_CHECK_TRACK) != 0;
}

/* What the table knows of b->p: small blocks at once. */
MT_INLINE int find(struct block *b)
{
	uint32_t *slot = mt_index_find((uint64_t)b->p);
	uint32_t r = slot ? __atomic_load_n(slot, __ATOMIC_RELAXED) : 0;
	const struct mt_state_live *l = &mt_rt.live[r];
	struct mt_gone gone;
	b->slot = NULL;
	if (MT_LIKELY((int32_t)r > 0 && l->place == (uint64_t)b->p)) {
		b->slot = slot;
		b->record = r;
		b->cell = l->cell;
		b->size = l->size;
		return 1;
	}
	if (!mt_record_find(b->p, &gone))
		return 0;
	b->cell = gone.cell;
	b->size = gone.size;
	return 1;
}

/* Without a header only its size tells. */
static int was_left_out(const struct block *b)
{
	return mt_layout.has_header ? mt_header_of(b->p)->flags & MT_HEADER_UNCHECKED
				    : is_size_left_out(b->size);
}

/* Fills *b for p as far as it is ours. */
MT_INLINE enum verdict examine(struct mt_thread *t, const struct mt_use *use, void *p,
			       struct block *b)
{
	b->p = b->original = p;
	b->in_table = 1;
	b->cell = b->alloc_call = 0;
	b->size = b->usable = 0;
	b->left_out = 0;
	if (MT_UNLIKELY(!find(b))) {
		if (is_verified() || mt_layout.has_header)
			return examine_unknown(t, use, b);
		b->in_table = 0; /* nobody asked whether the pointer is right */
		return IS_FOREIGN;
	}
	if (!mt_layout.has_header)
		b->usable = usable_of(p, b->size);
	else if (read_header(t, use, b) != IS_OURS)
		return IS_BAD;
	b->alloc_call = alloc_call_of(b);
	b->left_out = MT_UNLIKELY(mt_check.limited) && was_left_out(b);
	return IS_OURS;
}

/* --- going away ---------------------------------------------------------------------------- */

MT_COLD static void report_guard(struct mt_thread *t, const struct mt_use *use,
				 const struct block *b, int is_front)
{
	struct mt_known known = known_of(b);
	mt_report_guard(t, use, &known, is_front);
}

MT_COLD static void report_mismatch(struct mt_thread *t, const struct mt_use *use,
				    const struct block *b)
{
	struct mt_known known = known_of(b);
	int is_new = b->alloc_call == MT_CALL_NEW || b->alloc_call == MT_CALL_NEW_ARRAY;
	if (!is_new && mt_report_may_be_new(&known))
		return;
	if (use->call == MT_CALL_FREE && mt_report_may_be_delete(t, use))
		return;
	mt_report_mismatch(t, use, &known);
}

MT_INLINE void check_operator(struct mt_thread *t, const struct mt_use *use, const struct block *b)
{
	if (MT_LIKELY(b->alloc_call <= MT_CALL_MALLOC && use->call == MT_CALL_FREE))
		return;
	if (MT_UNLIKELY(!mt_check_goes_with(b->alloc_call, use->call)))
		report_mismatch(t, use, b);
}

/* The same of a block against an inaccessible page. */
static void check_page_operator(struct mt_thread *t, const struct mt_use *use, void *p)
{
	struct mt_gone gone;
	if (!mt_record_find(p, &gone))
		return;
	struct block b = {.p = p, .size = gone.size, .cell = gone.cell};
	b.alloc_call = mt_check_made_by(gone.cell);
	check_operator(t, use, &b);
}

/* Before a block goes or changes: what can be seen of it. */
MT_INLINE void check_block(struct mt_thread *t, const struct mt_use *use, const struct block *b)
{
	uint32_t front = mt_layout.front, rear = mt_layout.rear;
	if (MT_UNLIKELY(b->left_out))
		return;
	check_operator(t, use, b);
	if (front &&
	    MT_UNLIKELY(!mt_guard_bytes_hold((const char *)b->p - front, MT_BYTE_FRONT, front)))
		report_guard(t, use, b, 1);
	if (rear &&
	    MT_UNLIKELY(!mt_guard_bytes_hold((const char *)b->p + b->size, MT_BYTE_REAR, rear)))
		report_guard(t, use, b, 0);
}

/* 1: nobody has freed it since it was looked at, as far as a header tells. */
static int is_untouched(const struct block *b)
{
	return !mt_layout.has_header || mt_header_is_good(mt_header_of(b->p), b->p);
}

MT_NOINLINE static int leave_table_slow(struct mt_thread *t, const struct mt_use *use,
					const struct block *b, int is_realloc)
{
	struct mt_gone gone = {0};
	if (!is_realloc && mt_fast_free(t, (uint64_t)b->p, MT_FAST_FULL))
		return 1;
	if (MT_UNLIKELY(!mt_record_take(t, b->p, &gone))) {
		if (may_be_unseen() && is_untouched(b))
			return 1;
		mt_report_bad_pointer(t, use, b->p, MT_BAD_UNKNOWN, 0, NULL);
		return 0;
	}
	mt_record_gone(t, &gone, is_realloc);
	return 1;
}

/* The block leaves the table: 1, or 0 when another thread was quicker. */
MT_INLINE int leave_table(struct mt_thread *t, const struct mt_use *use, const struct block *b,
			  int is_realloc)
{
	if (MT_LIKELY(b->slot && mt_fast_free_bare(t, b->slot, b->record)))
		return 1;
	return !b->in_table || leave_table_slow(t, use, b, is_realloc);
}

/* Marks and fills a block that is freed; how many bytes were filled. */
MT_INLINE uint64_t spoil(const struct block *b)
{
	if (mt_layout.has_header)
		mt_header_of(b->p)->tag = MT_TAG_FREED;
	if (!(mt_check.options.flags & MT_CHECK_FILL_ON_FREE) || b->left_out)
		return 0;
	uint64_t n = MT_MIN(b->usable, mt_check.options.fill_on_free);
	mt_mem_fill(b->p, MT_BYTE_FREE, n);
	return n;
}

/* 0: it is in the quarantine. */
MT_NOINLINE static int hold_back(struct mt_thread *t, const struct mt_use *use,
				 const struct block *b, uint64_t filled)
{
	uint32_t node =
		mt_check.options.free_frames ? mt_stack_node(&t->free_capture, use->caller) : 0;
	struct mt_held h = {
		.p = (uint64_t)b->p,
		.original = (uint64_t)b->original,
		.size = b->size,
		.usable = b->usable,
		.filled = filled,
		.has_header = mt_layout.has_header,
		.alloc_call = b->alloc_call,
		.alloc_cell = b->cell,
		.pid = mt_rt.pid,
		.free = mt_actor_of_event(t, node),
	};
	return mt_quarantine_add(t, &h);
}

MT_INLINE void free_original(void *p, struct mt_record_text *text)
{
	uint64_t start = mt_record_text_now();
	REAL->free(p);
	if (MT_LIKELY(!text))
		return;
	text->end_ns = mt_record_text_now();
	if (!text->start_ns) /* else a realloc's */
		text->start_ns = start;
}

MT_INLINE void give_up(struct block *b)
{
	mt_check_unclaim(b->place);
	b->place = NULL;
}

/* The block goes: held back, or freed. Everything that could be wrong with it has been said. */
MT_INLINE void let_go(struct mt_thread *t, const struct mt_use *use, struct block *b,
		      struct mt_record_text *text)
{
	uint64_t filled = spoil(b);
	int is_held = mt_check.options.flags & MT_CHECK_FREE_TRACK && !b->left_out &&
		      !hold_back(t, use, b, filled);
	/* who frees it again finds it held back; and before the allocator may give it again */
	give_up(b);
	if (!is_held)
		free_original(b->original, text);
}

MT_INLINE void free_block(struct mt_thread *t, const struct mt_use *use, struct block *b,
			  struct mt_record_text *text)
{
	check_block(t, use, b);
	if (leave_table(t, use, b, 0))
		let_go(t, use, b, text);
}

MT_COLD void mt_check_die(struct mt_thread *t)
{
	t->dying = 0;
	mt_leave(t);
	mt_guard_die();
}

/* --- calls --------------------------------------------------------------------------------- */

/* A call for a new block after mt_enter() said TRACK. */
static void *tracked_alloc(struct mt_thread *t, struct request *r)
{
	do_what_is_due(t, r->call, r->caller);
	uint32_t token = mt_record_text_begin();
	r->size += !r->size;
	void *p = make(t, r);
	r->text->pointer = p;
	mt_record_text_end(token, r->text);
	mt_check_leave(t);
	return p;
}

MT_COLD static void *malloc_recorded(struct mt_thread *t, struct request r, size_t size)
{
	struct mt_record_text text =
		text_of(r.call == MT_CALL_REALLOC ? MT_RECORD_TEXT_REALLOC : MT_RECORD_TEXT_MALLOC,
			NULL, size);
	r.text = &text;
	return tracked_alloc(t, &r);
}

MT_INLINE void *do_malloc(size_t size, enum mt_state_call call, const struct mt_caller *caller,
			  uint64_t source)
{
	struct mt_thread *t;
	struct request r = {
		.size = size, .align = MT_BLOCK_ALIGN, .caller = caller, .source = source};
	r.call = mt_check_called(call, &r.size, 0, caller->sp);
	enum mt_enter how = mt_enter(&t);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK))
		return mt_check_let_pass(how, t, REAL->malloc(size));
	if (MT_UNLIKELY(mt_record_text_is_on))
		return malloc_recorded(t, r, size);
	do_what_is_due(t, r.call, caller);
	r.size += !r.size;
	void *p = make_inline(t, &r);
	mt_check_leave(t);
	return p;
}

MT_NOINLINE void *mt_check_malloc(size_t size, enum mt_state_call call,
				  const struct mt_caller *caller, uint64_t source)
{
	return do_malloc(size, call, caller, source);
}

MT_NOINLINE void *mt_check_finish_malloc(struct mt_thread *t, void *original, size_t size,
					 enum mt_state_call call, const struct mt_caller *caller)
{
	struct request r = {.size = size,
			    .align = MT_BLOCK_ALIGN,
			    .call = call,
			    .zeroed = call == MT_CALL_CALLOC,
			    .caller = caller};
	void *p = make_of(t, &r, original);
	mt_check_leave(t);
	return p;
}

MT_NOINLINE void *mt_check_malloc_hook(size_t size)
{
	struct mt_caller caller = MT_CALLER();
	return do_malloc(size, MT_CALL_MALLOC, &caller, 0);
}

MT_NOINLINE void *mt_check_calloc(size_t n, size_t each, const struct mt_caller *caller,
				  uint64_t source)
{
	struct mt_record_text text = text_of(MT_RECORD_TEXT_CALLOC, NULL, each);
	struct mt_thread *t;
	struct request r = {.align = MT_BLOCK_ALIGN,
			    .call = MT_CALL_CALLOC,
			    .zeroed = 1,
			    .caller = caller,
			    .source = source,
			    .text = &text};
	enum mt_enter how = mt_enter(&t);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK))
		return mt_check_let_pass(how, t, REAL->calloc(n, each));
	text.n = n;
	if (mt_mul_size(n, each, &r.size)) {
		mt_record_text_end(mt_record_text_begin(), &text);
		mt_count(&t->row->failed_allocs, 1);
		mt_check_leave(t);
		return mt_errno_refuse(MT_ENOMEM);
	}
	return tracked_alloc(t, &r);
}

/* musl's memalign() calls aligned_alloc(), so that is what a nested call must not turn back. */
static void *aligned_untracked(size_t align, size_t size)
{
	if (REAL->aligned_alloc)
		return REAL->aligned_alloc(align, size);
	return REAL->memalign ? REAL->memalign(align, size) : mt_errno_refuse(MT_ENOMEM);
}

MT_NOINLINE void *mt_check_memalign(size_t align, size_t size, enum mt_state_call call,
				    const struct mt_caller *caller)
{
	struct mt_record_text text = text_of(MT_RECORD_TEXT_MEMALIGN, NULL, size + !size);
	struct mt_thread *t;
	struct request r = {
		.size = size, .align = round_align(align), .caller = caller, .text = &text};
	r.call = mt_check_called(call, &r.size, r.align - 1, caller->sp);
	enum mt_enter how = mt_enter(&t);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK))
		return mt_check_let_pass(how, t, aligned_untracked(r.align, size));
	text.align = r.align;
	return tracked_alloc(t, &r);
}

/* For the record of calls: what of a block is in memory before it goes. */
static int64_t present_of(const struct block *b, enum verdict v)
{
	size_t usable = b->usable;
	if (v == IS_FOREIGN)
		usable = REAL->malloc_usable_size ? REAL->malloc_usable_size(b->p) : 0;
	return mt_present_bytes(b->p, usable);
}

/* A block against an inaccessible page: guard.c looks at what lies beside it. */
static void free_page(struct mt_thread *t, const struct mt_use *use, void *p)
{
	struct mt_record_text text = text_of(MT_RECORD_TEXT_FREE, p, 0);
	uint32_t token = mt_record_text_begin();
	text.present = mt_present_bytes(p, mt_guard_size(p));
	check_page_operator(t, use, p);
	t->dying |= (uint32_t)mt_guard_free(MT_ENTER_TRACK, t, p, use->caller);
	mt_record_text_end(token, &text);
}

/* text: NULL, nothing is recorded. The verdict. */
MT_INLINE enum verdict free_any(struct mt_thread *t, const struct mt_use *use, void *p,
				struct mt_record_text *text)
{
	struct block b;
	b.place = mt_check_claim(p);
	enum verdict v = examine(t, use, p, &b);
	if (text && v != IS_BAD)
		text->present = present_of(&b, v);
	if (MT_LIKELY(v == IS_OURS))
		free_block(t, use, &b, text);
	give_up(&b);
	if (v == IS_FOREIGN)
		free_original(p, text);
	return v;
}

MT_COLD static void free_recorded(struct mt_thread *t, const struct mt_use *use, void *p)
{
	struct mt_record_text text = text_of(MT_RECORD_TEXT_FREE, p, 0);
	uint32_t token = mt_record_text_begin();
	enum verdict v = free_any(t, use, p, &text);
	mt_record_text_end(token, v == IS_BAD ? NULL : &text);
}

MT_INLINE void do_free(void *p, enum mt_state_call call, const struct mt_caller *caller)
{
	struct mt_thread *t;
	if (!p)
		return;
	size_t given = (size_t)p;
	struct mt_use use = {.call = mt_check_called(call, &given, 0, caller->sp),
			     .caller = caller};
	enum mt_enter how = mt_enter(&t);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK)) {
		mt_check_free_untracked(how, t, p);
		return;
	}
	do_what_is_due(t, use.call, caller);
	if (mt_guard_holds(p))
		free_page(t, &use, p);
	else if (MT_UNLIKELY(mt_record_text_is_on))
		free_recorded(t, &use, p);
	else
		free_any(t, &use, p, NULL);
	mt_check_leave(t);
}

MT_NOINLINE void mt_check_free(void *p, enum mt_state_call call, const struct mt_caller *caller)
{
	do_free(p, call, caller);
}

MT_NOINLINE void mt_check_free_hook(void *p)
{
	struct mt_caller caller = MT_CALLER();
	do_free(p, MT_CALL_FREE, &caller);
}

MT_NOINLINE size_t mt_check_usable_size(const void *p, const struct mt_caller *caller)
{
	struct mt_thread *t;
	struct block b;
	struct mt_use use = {.call = MT_CALL_USABLE_SIZE, .caller = caller};
	if (!p)
		return 0;
	enum mt_enter how = mt_enter(&t);
	if (how != MT_ENTER_TRACK)
		return mt_check_usable_untracked(p);
	do_what_is_due(t, use.call, caller);
	if (mt_guard_holds(p)) {
		mt_check_leave(t);
		return mt_guard_size(p);
	}
	enum verdict v = examine(t, &use, (void *)(uintptr_t)p, &b);
	size_t usable = v == IS_OURS ? b.usable : 0;
	if (v == IS_FOREIGN) {
		mt_foreign_add(p); /* it stays one */
		usable = REAL->malloc_usable_size ? REAL->malloc_usable_size(p) : 0;
	}
	mt_check_leave(t);
	return usable;
}

/* --- realloc ------------------------------------------------------------------------------- */

/* In place: the table and the header learn the new size. */
static void *resize(struct mt_thread *t, const struct mt_use *use, struct block *b,
		    const struct request *r)
{
	if (!leave_table(t, use, b, 1))
		return mt_errno_refuse(MT_EINVAL);
	if (mt_layout.has_header)
		mt_block_resize(b->p, r->size);
	if (!b->left_out)
		fill_new(b->p, b->usable, r->size);
	enter_table(t, b->p, r);
	return b->p;
}

/* Into a new block; the old one goes as by free(). NULL: it is as it was. */
static void *move(struct mt_thread *t, const struct mt_use *use, struct block *b,
		  const struct request *r)
{
	void *p = make(t, r);
	if (!p)
		return NULL;
	mt_mem_copy_block(p, b->p, MT_MIN(b->usable, (uint64_t)r->size));
	if (leave_table(t, use, b, 1))
		let_go(t, use, b, r->text);
	return p;
}

/* 1: the block stays where it is. */
static int fits(const struct block *b, size_t size)
{
	size_t want;
	if (__builtin_add_overflow(size, (size_t)mt_check.options.expand, &want))
		return 0;
	return size == b->size || (want <= b->usable && size <= b->usable);
}

/* Without a header the allocator itself resizes, unless the old place is to be watched. */
static void *resize_by_allocator(struct mt_thread *t, struct block *b, const struct request *r)
{
	struct mt_gone gone = {0};
	size_t total;
	if (__builtin_add_overflow(r->size, (size_t)mt_layout.extra, &total))
		return mt_errno_refuse(MT_ENOMEM);
	int known = mt_record_take(t, b->p, &gone);
	r->text->start_ns = mt_record_text_now();
	void *p = REAL->realloc(b->p, total);
	r->text->end_ns = mt_record_text_now();
	if (!p) {
		if (known)
			mt_record_restore(t, b->p, &gone);
		return NULL;
	}
	if (known)
		mt_record_gone(t, &gone, 1);
	mt_foreign_remove(p);
	if (MT_UNLIKELY(t->settle))
		mt_record_returned(t, p);
	if (!b->left_out)
		fill_new(p, b->usable, r->size);
	enter_table(t, p, r);
	return p;
}

static void *realloc_block(struct mt_thread *t, const struct mt_use *use, struct block *b,
			   const struct request *r)
{
	int watched = mt_layout.has_header ||
		      mt_check.options.flags & (MT_CHECK_FREE_TRACK | MT_CHECK_FILL_ON_FREE);
	check_block(t, use, b);
	uint64_t was = b->size;
	void *p = !watched           ? resize_by_allocator(t, b, r)
		  : fits(b, r->size) ? resize(t, use, b, r)
				     : move(t, use, b, r);
	if (p) {
		mt_count(&t->row->reallocs, 1);
		mt_count(&t->row->realloc_grown, r->size > was);
	} else {
		mt_count(&t->row->failed_allocs, 1);
	}
	return p;
}

/* A block that lies against an inaccessible page moves, always. NULL: it is as it was. */
static void *realloc_page(struct mt_thread *t, void *old, const struct request *r)
{
	size_t was = mt_guard_size(old);
	void *p = was && r->size ? make(t, r) : NULL;
	if (was && r->size && !p)
		return NULL;
	if (p)
		mt_mem_copy_block(p, old, MT_MIN(was, r->size));
	t->dying |= (uint32_t)mt_guard_free(MT_ENTER_TRACK, t, old, r->caller);
	return p;
}

/* A block that is the allocator's own stays so. */
static void *realloc_foreign(void *old, size_t size, struct mt_record_text *text)
{
	text->start_ns = mt_record_text_now();
	void *p = REAL->realloc(old, size);
	text->end_ns = mt_record_text_now();
	mt_foreign_add(p ? p : size ? old : NULL);
	return p;
}

MT_NOINLINE void *mt_check_realloc(void *old, size_t size, const struct mt_caller *caller,
				   uint64_t source)
{
	struct mt_thread *t;
	struct block b;
	struct mt_use use = {.call = MT_CALL_REALLOC, .caller = caller};
	struct mt_record_text text = text_of(MT_RECORD_TEXT_REALLOC, NULL, size);
	struct request r = {.size = size,
			    .align = MT_BLOCK_ALIGN,
			    .call = MT_CALL_REALLOC,
			    .caller = caller,
			    .source = source,
			    .text = &text};
	void *p = NULL;
	if (!old)
		return mt_check_malloc(size, MT_CALL_REALLOC, caller, source);
	enum mt_enter how = mt_enter(&t);
	if (MT_UNLIKELY(how != MT_ENTER_TRACK))
		return mt_check_realloc_untracked(how, t, old, size);
	text.old = old;
	do_what_is_due(t, MT_CALL_REALLOC, caller);
	if (mt_guard_holds(old)) {
		uint32_t token = mt_record_text_begin();
		text.present = mt_present_bytes(old, mt_guard_size(old));
		text.pointer = p = realloc_page(t, old, &r);
		mt_record_text_end(token, &text);
		mt_check_leave(t);
		return p;
	}
	uint32_t token = mt_record_text_begin();
	b.place = mt_check_claim(old);
	enum verdict v = examine(t, &use, old, &b);
	if (MT_UNLIKELY(token) && v != IS_BAD)
		text.present = present_of(&b, v);
	if (v == IS_FOREIGN)
		p = realloc_foreign(old, size, &text);
	else if (v == IS_OURS && !size)
		free_block(t, &use, &b, &text);
	else if (v == IS_OURS)
		p = realloc_block(t, &use, &b, &r);
	give_up(&b);
	text.pointer = p;
	mt_record_text_end(token, v == IS_BAD ? NULL : &text);
	mt_check_leave(t);
	return p;
}
