/* SPDX-License-Identifier: MIT */
/* The pool of guarded samples and what is found there; see guard.h. */
#include "runtime/guard.h"

#include "core/mem.h"
#include "core/sys.h"
#include "runtime/errors.h"
#include "runtime/light.h"
#include "runtime/program_errno.h"
#include "runtime/provider.h"
#include "runtime/sampler.h"
#include "runtime/storage.h"

#if defined(__x86_64__)
enum { PAGE = 4096 };
#else
enum { PAGE = 65536 }; /* the largest that a kernel uses */
#endif
enum {
	SIZE_MAX_GUARDED = 4096,
	ALIGN_LEAST = 16,
	BESIDE = 64, /* bytes beside a block in its page that must not change */
	BESIDE_BYTE = 0xd5,
	CLAIM_TRIES = 4,
	WAITS_MAX = 10000,
	SIGABRT_NUMBER = 6,
};

enum slot_state {
	SLOT_FRESH = 0, /* never used */
	SLOT_BUSY = 1,  /* between two states */
	SLOT_LIVE = 2,
	SLOT_FREED = 3,
};

struct slot {
	uint32_t state;   /* enum slot_state, atomic */
	uint32_t retired; /* 1: a page beside or of it was opened after an error: not used again */
	uint64_t start, size;
	uint64_t usable; /* what STATS counted */
	uint64_t order;  /* which free it was */
	struct mt_state_actor alloc, free;
	int alloc_pid, free_pid; /* whose tables the actors' numbers are of */
	uint32_t waits;          /* faults that waited for the slot's change of state */
};

static struct {
	struct slot *slot;
	uint8_t *reported; /* by page: an error there was written */
	uint32_t count;
	uint32_t available; /* slots that may be claimed, atomic */
	uint32_t stopped;   /* 1: nothing is placed any more */
	uint64_t frees;     /* atomic */
} pool;

/* --- pages --------------------------------------------------------------------------------- */

static uint32_t page_of(uint64_t address)
{
	return (uint32_t)((address - mt_rt.guard_base) / PAGE);
}

static uint64_t page_start(uint32_t page)
{
	return mt_rt.guard_base + (uint64_t)page * PAGE;
}

/* The slot whose page this is, or NULL: it is one that is never accessible. */
static struct slot *slot_of_page(uint32_t page)
{
	return page & 1 ? &pool.slot[page / 2] : NULL;
}

static uint32_t page_of_slot(const struct slot *s)
{
	return 2 * (uint32_t)(s - pool.slot) + 1;
}

static uint32_t state_of(const struct slot *s)
{
	return __atomic_load_n(&s->state, __ATOMIC_ACQUIRE);
}

static int claim_as(struct slot *s, uint32_t from)
{
	return __atomic_compare_exchange_n(&s->state, &from, SLOT_BUSY, 0, __ATOMIC_ACQ_REL,
					   __ATOMIC_RELAXED);
}

static void set_state(struct slot *s, uint32_t state)
{
	__atomic_store_n(&s->state, state, __ATOMIC_RELEASE);
}

static int set_access(uint32_t page, int protection)
{
	if (mt_rt.sandboxed == MT_SANDBOX_NO_CALLS)
		return -MT_EINVAL;
	return (int)mt_sys3(__NR_mprotect, page_start(page), PAGE, protection);
}

/* The live or freed block that starts there, or NULL. */
static struct slot *slot_at(const void *p)
{
	struct slot *s = slot_of_page(page_of((uint64_t)p));
	return s && s->start == (uint64_t)p && state_of(s) != SLOT_FRESH ? s : NULL;
}

/* --- start --------------------------------------------------------------------------------- */

/* The allocator is the C library's: no other way to give a block back than through our hooks. */
static int is_plain_provider(void)
{
#ifdef MT_BUILD_WRAP
	return 0; /* its users' malloc_usable_size and sigaction do not come here */
#else
	static const char *const others[] = {"sdallocx", "mi_usable_size", "tc_malloc_size",
					     "__sanitizer_get_allocated_size"};
	for (size_t i = 0; i < MT_ARRAY_LEN(others); i++)
		if (mt_provider_find(others[i]))
			return 0;
	return mt_original[MT_FAMILY_PLAIN].malloc_usable_size != NULL;
#endif
}

static int make_pool(uint32_t slots)
{
	size_t pages = 2 * (size_t)slots + 1;
	size_t tables = MT_ALIGN_UP(slots * sizeof(struct slot) + pages, (size_t)PAGE);
	long at = mt_sys_mmap(NULL, pages * PAGE, MT_PROT_NONE,
			      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS | MT_MAP_NORESERVE, -1, 0);
	if (mt_sys_is_error(at))
		return (int)at;
	long table = mt_sys_mmap(NULL, tables, MT_PROT_READ | MT_PROT_WRITE,
				 MT_MAP_PRIVATE | MT_MAP_ANONYMOUS, -1, 0);
	if (mt_sys_is_error(table)) {
		mt_sys_munmap((void *)at, pages * PAGE);
		return (int)table;
	}
	pool.slot = (struct slot *)table;
	pool.reported = (uint8_t *)(pool.slot + slots);
	pool.count = pool.available = slots;
	mt_rt.guard_base = (uintptr_t)at;
	mt_rt.guard_bytes = pages * PAGE;
	return 0;
}

void mt_guard_begin(void)
{
	uint32_t slots = mt_rt.options.guard_slots;
	if (!slots || pool.slot || !is_plain_provider() || make_pool(slots))
		return;
	if (mt_fault_begin())
		pool.stopped = 1;
}

void mt_guard_describe(void)
{
	struct mt_state_header *h = mt_rt.hdr;
	if (!mt_rt.options.guard_slots)
		return;
	if (!pool.slot || pool.stopped) {
		mt_rt_note(MT_NOTE_NO_GUARD);
		return;
	}
	mt_errors_begin();
	h->guard_slots = pool.count;
	h->guard_page_bytes = PAGE;
}

void mt_guard_stop(void)
{
	__atomic_store_n(&pool.stopped, 1, __ATOMIC_RELAXED);
}

/* --- who ----------------------------------------------------------------------------------- */

/* From the handler's own stack to that of the code that it interrupted. */
static uint32_t interrupted(uint32_t node)
{
	uint32_t n = node;
	while (n >= MT_NODE_ROOTS && (mt_rt.nodes[n].meta >> 20 & 15) != MT_NODE_EXACT)
		n = mt_rt.nodes[n].parent;
	return n >= MT_NODE_ROOTS ? n : node;
}

/* --- errors -------------------------------------------------------------------------------- */

static void fill_block(struct mt_state_error *e, const struct slot *s)
{
	e->block = s->start;
	e->block_bytes = s->size;
	e->alloc = mt_actor_here(&s->alloc, s->alloc_pid);
	if (state_of(s) == SLOT_FREED)
		e->free = mt_actor_here(&s->free, s->free_pid);
	if (s->alloc_pid != mt_rt.pid)
		e->flags |= MT_ERROR_INHERITED;
}

static int is_fatal(void)
{
	return mt_rt.options.guard_fatal != 0;
}

/* Opens a page after an error, for good. 0, or a negative errno value. */
static int open_page(uint32_t page)
{
	uint32_t last = 2 * pool.count;
	struct slot *before = page ? slot_of_page(page - 1) : NULL;
	struct slot *after = page < last ? slot_of_page(page + 1) : NULL;
	struct slot *own = slot_of_page(page);
	if (own)
		own->retired = 1;
	if (before)
		before->retired = 1;
	if (after)
		after->retired = 1;
	return set_access(page, MT_PROT_READ | MT_PROT_WRITE);
}

/* --- allocation ---------------------------------------------------------------------------- */

/* The slot that was never used, or was freed first. */
static struct slot *best_slot(void)
{
	struct slot *best = NULL;
	for (uint32_t i = 0; i < pool.count; i++) {
		struct slot *s = &pool.slot[i];
		uint32_t state = state_of(s);
		if (s->retired || (state != SLOT_FRESH && state != SLOT_FREED))
			continue;
		if (state == SLOT_FRESH)
			return s;
		if (!best || s->order < best->order)
			best = s;
	}
	return best;
}

static struct slot *claim_slot(void)
{
	for (int i = 0; i < CLAIM_TRIES; i++) {
		if (!__atomic_load_n(&pool.available, __ATOMIC_RELAXED))
			return NULL;
		struct slot *s = best_slot();
		if (!s)
			return NULL;
		if (claim_as(s, SLOT_FRESH) || claim_as(s, SLOT_FREED)) {
			__atomic_fetch_sub(&pool.available, 1, __ATOMIC_RELAXED);
			return s;
		}
	}
	return NULL;
}

static void give_up_slot(struct slot *s)
{
	s->retired = 1;
	set_state(s, SLOT_FREED);
}

/* Where the block begins: at the end of the page, at some of all times at its start. */
static uint64_t place_in_page(struct mt_thread *t, uint32_t page, size_t size, size_t align)
{
	uint64_t start = page_start(page);
	int at_start = mt_rt.options.guard_side == MT_GUARD_SIDE_START ||
		       (mt_rt.options.guard_side == MT_GUARD_SIDE_EITHER &&
			(mt_random_next(&t->random) & 7) == 0);
	return at_start ? start : (start + PAGE - MT_MAX(size, (size_t)1)) & ~(uint64_t)(align - 1);
}

static void fill_beside(uint64_t from, uint64_t to)
{
	for (uint64_t at = from; at < to; at++)
		*(volatile uint8_t *)at = BESIDE_BYTE;
}

/* Bytes of the page before and behind the block that are watched. */
static void beside(const struct slot *s, uint64_t *ret_before, uint64_t *ret_end)
{
	uint64_t page = page_start(page_of_slot(s)), end = s->start + s->size;
	*ret_before = s->start - MT_MIN(s->start - page, (uint64_t)BESIDE);
	*ret_end = end + MT_MIN(page + PAGE - end, (uint64_t)BESIDE);
}

/* The alignment that this call may have asked for. */
static size_t align_of(const void *p, enum mt_state_call call)
{
	size_t by_address = (uintptr_t)p & -(uintptr_t)p;
	return call == MT_CALL_ALIGNED ? MT_MAX(by_address, (size_t)ALIGN_LEAST) : ALIGN_LEAST;
}

static void free_real(void *p)
{
	int before = mt_errno_get();
	mt_original[MT_FAMILY_PLAIN].free(p);
	mt_errno_set(before);
}

static int may_place(const struct mt_thread *t, const void *p, size_t size, enum mt_state_call call)
{
	return pool.slot && !__atomic_load_n(&pool.stopped, __ATOMIC_RELAXED) &&
	       size <= SIZE_MAX_GUARDED && t->family == MT_FAMILY_PLAIN && !mt_rt.sandboxed &&
	       align_of(p, call) <= SIZE_MAX_GUARDED;
}

void *mt_guard_place(struct mt_thread *t, void *p, size_t size, enum mt_state_call call)
{
	uint64_t before, end;
	if (!may_place(t, p, size, call))
		return NULL;
	struct slot *s = claim_slot();
	if (!s) {
		__atomic_fetch_add(&mt_rt.hdr->guard_refused, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	if (set_access(page_of_slot(s), MT_PROT_READ | MT_PROT_WRITE)) {
		give_up_slot(s);
		return NULL;
	}
	pool.reported[page_of_slot(s)] = 0;
	s->waits = 0;
	s->size = size;
	s->start = place_in_page(t, page_of_slot(s), size, align_of(p, call));
	s->usable = mt_usable(MT_FAMILY_PLAIN, p);
	s->alloc = mt_actor(t, 0);
	s->alloc_pid = mt_rt.pid;
	beside(s, &before, &end);
	fill_beside(before, s->start);
	fill_beside(s->start + size, end);
	mt_mem_copy((void *)s->start, p, size);
	free_real(p);
	set_state(s, SLOT_LIVE);
	__atomic_fetch_add(&mt_rt.hdr->guard_placed, 1, __ATOMIC_RELAXED);
	return (void *)s->start;
}

void mt_guard_made(struct mt_thread *t, const void *p, uint32_t cell)
{
	struct slot *s = slot_at(p);
	if (s && cell)
		s->alloc.node = mt_rt.sites[mt_rt.cells[cell].site].node;
}

size_t mt_guard_size(const void *p)
{
	const struct slot *s = slot_at(p);
	return s ? s->size : 0;
}

size_t mt_guard_usable(const void *p)
{
	const struct slot *s = slot_at(p);
	return s ? s->usable : 0;
}

/* --- free ---------------------------------------------------------------------------------- */

/* free or realloc of what is no live block. */
static int report_bad_free(struct mt_thread *t, const void *p, uint32_t node)
{
	struct slot *s = slot_of_page(page_of((uint64_t)p));
	struct mt_state_error e = {
		.kind = MT_ERROR_INVALID_FREE,
		.flags = is_fatal() ? MT_ERROR_FATAL : 0,
		.address = (uint64_t)p,
		.use = mt_actor(t, node),
	};
	if (s && state_of(s) != SLOT_FRESH) {
		fill_block(&e, s);
		if (s->start == (uint64_t)p)
			e.kind = MT_ERROR_DOUBLE_FREE;
	}
	mt_error_of_page(&e);
	return is_fatal();
}

/* The first changed byte of [from, to), or 0. */
static uint64_t find_changed(uint64_t from, uint64_t to)
{
	for (uint64_t at = from; at < to; at++)
		if (*(const volatile uint8_t *)at != BESIDE_BYTE)
			return at;
	return 0;
}

/* Bytes beside the block were changed while it lived. 1: the program is to end. */
static int check_beside(struct mt_thread *t, struct slot *s, uint32_t node)
{
	uint64_t before, end;
	beside(s, &before, &end);
	uint64_t over = find_changed(s->start + s->size, end);
	uint64_t under = over ? 0 : find_changed(before, s->start);
	if (!over && !under)
		return 0;
	struct mt_state_error e = {
		.kind = over ? MT_ERROR_OVERFLOW : MT_ERROR_UNDERFLOW,
		.access = MT_ACCESS_WRITE,
		.flags = MT_ERROR_FOUND_LATE | (is_fatal() ? MT_ERROR_FATAL : 0),
		.address = over ? over : under,
		.use = mt_actor(t, node),
	};
	fill_block(&e, s);
	mt_error_of_page(&e);
	return is_fatal();
}

/* The slot, claimed from its live block, becomes inaccessible. */
static void retire_block(struct mt_thread *t, struct slot *s, uint32_t node)
{
	s->free = mt_actor(t, node);
	s->free_pid = mt_rt.pid;
	s->order = __atomic_add_fetch(&pool.frees, 1, __ATOMIC_RELAXED);
	if (set_access(page_of_slot(s), MT_PROT_NONE))
		s->retired = 1;
	int is_retired = s->retired != 0;
	set_state(s, SLOT_FREED);
	if (!is_retired)
		__atomic_fetch_add(&pool.available, 1, __ATOMIC_RELAXED);
}

static void count_free(enum mt_enter how, struct mt_thread *t, const void *p)
{
	if (how == MT_ENTER_TRACK)
		mt_record_free(t, p);
	else if (how == MT_ENTER_NESTED)
		mt_record_free_nested(t, p);
}

int mt_guard_free(enum mt_enter how, struct mt_thread *t, void *p, const struct mt_caller *caller)
{
	struct slot *s = slot_at(p);
	uint32_t node = how == MT_ENTER_TRACK ? mt_stack_node(t, caller) : 0;
	if (!s || !claim_as(s, SLOT_LIVE))
		return report_bad_free(t, p, node);
	int fatal = check_beside(t, s, node);
	count_free(how, t, p);
	retire_block(t, s, node);
	return fatal;
}

MT_NOINLINE void mt_guard_free_call(void *p)
{
	struct mt_caller caller = MT_CALLER();
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	int fatal = mt_guard_free(how, t, p, &caller);
	if (how == MT_ENTER_TRACK)
		mt_leave(t);
	if (fatal)
		mt_guard_die();
}

MT_COLD void mt_guard_die(void)
{
	struct {
		uintptr_t handler, flags, restorer;
		uint64_t mask;
	} by_default = {0, 0, 0, 0};
	uint64_t set = 1ull << (SIGABRT_NUMBER - 1);
	mt_sys_tgkill(mt_sys_getpid(), mt_sys_gettid(), SIGABRT_NUMBER);
	/* ignored, blocked, or its handler came back: as abort() */
	mt_sys4(__NR_rt_sigaction, SIGABRT_NUMBER, &by_default, 0, sizeof(by_default.mask));
	mt_sys_tgkill(mt_sys_getpid(), mt_sys_gettid(), SIGABRT_NUMBER);
	mt_sys4(__NR_rt_sigprocmask, 1 /* SIG_UNBLOCK */, &set, 0, sizeof(set));
	mt_sys1(__NR_exit_group, 127);
}

/* --- realloc ------------------------------------------------------------------------------- */

/* The stale address is nobody's: the caller gets what it asks for, without contents. */
static void *bad_realloc(enum mt_enter how, struct mt_thread *t, const struct mt_realloc *r,
			 const struct mt_caller *caller, uint64_t source)
{
	uint32_t node = how == MT_ENTER_TRACK ? mt_stack_node(t, caller) : 0;
	int fatal = report_bad_free(t, r->old, node);
	if (fatal) {
		if (how == MT_ENTER_TRACK)
			mt_leave(t);
		mt_guard_die();
	}
	void *p = mt_original[MT_FAMILY_PLAIN].malloc(r->size);
	if (how != MT_ENTER_TRACK)
		return mt_record_nested(how, t, p);
	return mt_finish_alloc(t, p, r->size, MT_CALL_REALLOC, caller, source);
}

/* The block is gone from the pool; real: where its contents went on. */
static int leave_pool(enum mt_enter how, struct mt_thread *t, const struct mt_realloc *r,
		      struct slot *s, const struct mt_caller *caller)
{
	struct mt_gone gone = {0};
	uint32_t node = how == MT_ENTER_TRACK ? mt_stack_node(t, caller) : 0;
	int fatal = check_beside(t, s, node);
	if (how == MT_ENTER_TRACK) {
		if (mt_record_take(t, r->old, &gone))
			mt_record_gone(t, &gone, 1);
		else
			mt_record_unknown(t, &gone);
		mt_count(&t->row->reallocs, 1);
		mt_count(&t->row->realloc_grown, r->size > s->size);
	} else {
		count_free(how, t, r->old);
	}
	retire_block(t, s, node);
	return fatal;
}

/* The block's contents in a block of the allocator, or NULL (errno is set). */
static void *copy_out(const struct slot *s)
{
	void *real = mt_original[MT_FAMILY_PLAIN].malloc(s->size);
	if (real)
		mt_mem_copy(real, (const void *)s->start, s->size);
	return real;
}

/*
 * The allocator resizes a copy of the block, so that it decides what a realloc means. The old block
 * stays until it has succeeded.
 */
void *mt_guard_realloc(enum mt_enter how, struct mt_thread *t, const struct mt_realloc *r,
		       const struct mt_caller *caller, uint64_t source)
{
	struct slot *s = slot_at(r->old);
	struct mt_realloc moved = *r;
	if (!s || !claim_as(s, SLOT_LIVE))
		return bad_realloc(how, t, r, caller, source);
	moved.old = copy_out(s);
	void *p = moved.old ? r->call(&moved) : NULL;
	if (!moved.old || (!p && r->size)) { /* failed: the old block is as it was */
		if (moved.old)
			free_real(moved.old);
		set_state(s, SLOT_LIVE);
		if (how != MT_ENTER_TRACK)
			return NULL;
		return mt_finish_alloc(t, NULL, r->size, MT_CALL_REALLOC, caller, source);
	}
	int fatal = leave_pool(how, t, r, s, caller);
	if (how != MT_ENTER_TRACK)
		p = mt_record_nested(how, t, p);
	else if (!p)
		mt_leave(t);
	else
		p = mt_finish_alloc(t, p, r->size, MT_CALL_REALLOC, caller, source);
	if (fatal)
		mt_guard_die();
	return p;
}

/* --- faults -------------------------------------------------------------------------------- */

static int has_block(const struct slot *s)
{
	return s && state_of(s) != SLOT_FRESH && s->start;
}

/* An access between two slots belongs to the block that is nearer. */
static struct slot *nearest(uint32_t page, uint64_t address)
{
	struct slot *before = page ? slot_of_page(page - 1) : NULL;
	struct slot *after = page < 2 * pool.count ? slot_of_page(page + 1) : NULL;
	if (!has_block(before))
		return has_block(after) ? after : NULL;
	if (!has_block(after))
		return before;
	uint64_t over = address - (before->start + before->size), under = after->start - address;
	return over <= under ? before : after;
}

static void find_kind(struct mt_state_error *e, const struct slot *s)
{
	if (!s)
		e->kind = MT_ERROR_WILD;
	else if (state_of(s) == SLOT_FREED)
		e->kind = MT_ERROR_USE_AFTER_FREE;
	else
		e->kind = e->address < s->start ? MT_ERROR_UNDERFLOW : MT_ERROR_OVERFLOW;
}

static void report_fault(const struct mt_guard_fault *f, const struct slot *s,
			 const struct mt_caller *at, int fatal)
{
	struct mt_state_error e = {
		.access = f->access,
		.flags = fatal ? MT_ERROR_FATAL : 0,
		.signal = f->signal,
		.address = f->address,
		.pc = f->pc,
	};
	struct mt_thread *t = mt_thread_self();
	/* what stands on this stack tells nothing about the hook that was interrupted */
	enum mt_enter how = t && t->depth ? MT_ENTER_NESTED : mt_enter(&t);
	uint32_t node = how == MT_ENTER_TRACK ? interrupted(mt_stack_node(t, at)) : 0;
	e.use = mt_actor(t, node);
	if (s)
		fill_block(&e, s);
	find_kind(&e, s);
	mt_error_of_page(&e);
	if (how == MT_ENTER_TRACK)
		mt_leave(t);
}

/*
 * Another thread has just been given the slot, or is about to be: the access, wrong as it is, is
 * made again. Not for ever: in a forked child that thread is not there.
 */
static int is_in_change(struct slot *s)
{
	uint32_t state = state_of(s);
	if (state != SLOT_LIVE && state != SLOT_BUSY)
		return 0;
	return __atomic_fetch_add(&s->waits, 1, __ATOMIC_RELAXED) < WAITS_MAX;
}

enum mt_guard_verdict mt_guard_judge(const struct mt_guard_fault *f, const struct mt_caller *at)
{
	uint32_t page = page_of(f->address);
	struct slot *own = slot_of_page(page);
	struct slot *s = own ? (has_block(own) ? own : NULL) : nearest(page, f->address);
	int fatal = is_fatal();
	if (own && is_in_change(own))
		return MT_GUARD_GO_ON;
	if (own && state_of(own) == SLOT_LIVE)
		return MT_GUARD_NOT_OURS;
	if (!fatal && open_page(page)) /* cannot go on */
		fatal = 1;
	if (!pool.reported[page]) {
		pool.reported[page] = 1;
		report_fault(f, s, at, fatal);
	}
	return fatal ? MT_GUARD_FATAL : MT_GUARD_GO_ON;
}
