/* SPDX-License-Identifier: MIT */
/* The pool of guarded samples and what is found there; see guard.h. */
#include "runtime/guard.h"

#include "core/mem.h"
#include "core/sys.h"
#include "runtime/check.h"
#include "runtime/errors.h"
#include "runtime/light.h"
#include "runtime/program_errno.h"
#include "runtime/provider.h"
#include "runtime/sampler.h"
#include "runtime/storage.h"

#if defined(__x86_64__)
enum { PAGE = 4096 };
/* Check mode's slots for larger blocks: 16 KiB, 64 KiB, 256 KiB and 1 MiB. */
#define LARGER_CLASSES \
	{4, 256}, {16, 128}, {64, 64}, \
	{ \
		256, 32 \
	}
#else
enum { PAGE = 65536 }; /* the largest that a kernel uses */
#define LARGER_CLASSES \
	{4, 64}, \
	{ \
		16, 32 \
	}
#endif
enum {
	SAMPLE_BYTES_MAX = 4096,
	ALIGN_MOST = 4096,
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

/* Slots of one size, each with an inaccessible page before it. */
struct class
{
	uint32_t pages, slots; /* of a slot; in the class */
	uint32_t first_page, first_slot;
	uint32_t available; /* slots that may be claimed, atomic */
};

enum { CLASSES_MAX = 5 };

static struct {
	struct slot *slot;
	uint8_t *reported; /* by page, the first of a block's: an error there was written */
	struct class class[CLASSES_MAX]; /* smaller slots first */
	uint32_t classes, count, pages;  /* of all classes; the last page belongs to no slot */
	uint64_t bytes;                  /* of all slots */
	uint64_t size_max;               /* larger blocks are not placed */
	uint32_t stopped;                /* 1: nothing is placed any more */
	uint64_t frees;                  /* atomic */
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
	const struct class *c = &pool.class[pool.classes - 1];
	while (page < c->first_page)
		c--;
	uint32_t at = page - c->first_page, unit = c->pages + 1;
	return at % unit ? &pool.slot[c->first_slot + at / unit] : NULL;
}

static struct class *class_of(const struct slot *s)
{
	struct class *c = &pool.class[pool.classes - 1];
	while ((uint32_t)(s - pool.slot) < c->first_slot)
		c--;
	return c;
}

/* Pages of a slot's block, all of them accessible while it lives; the slot may have more. */
struct span {
	uint32_t first, count;
};

static struct span span_of(const struct slot *s)
{
	uint32_t first = page_of(s->start);
	return (struct span){first, page_of(s->start + MT_MAX(s->size, 1u) - 1) - first + 1};
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

static int set_access(struct span span, int protection)
{
	if (mt_rt.sandboxed == MT_SANDBOX_NO_CALLS)
		return -MT_EINVAL;
	return (int)mt_sys3(__NR_mprotect, page_start(span.first), (uint64_t)span.count * PAGE,
			    protection);
}

static int has_block(const struct slot *s)
{
	return s && state_of(s) != SLOT_FRESH && s->start;
}

static int is_of_block(const struct slot *s, uint32_t page)
{
	return has_block(s) && page - span_of(s).first < span_of(s).count;
}

/* The live or freed block that starts there, or NULL. */
static struct slot *slot_at(const void *p)
{
	struct slot *s = mt_guard_holds(p) ? slot_of_page(page_of((uint64_t)p)) : NULL;
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

static void add_class(uint32_t pages, uint32_t slots)
{
	pool.class[pool.classes++] = (struct class){.pages = pages,
						    .slots = slots,
						    .first_page = pool.pages,
						    .first_slot = pool.count,
						    .available = slots};
	pool.count += slots;
	pool.pages += slots * (pages + 1);
	pool.bytes += (uint64_t)slots * pages * PAGE;
	pool.size_max = (uint64_t)pages * PAGE;
}

static void choose_classes(uint32_t slots, int is_check)
{
	static const struct {
		uint32_t pages, slots;
	} larger[] = {LARGER_CLASSES};
	pool.classes = pool.count = pool.pages = 0;
	pool.bytes = 0;
	add_class(1, slots);
	for (size_t i = 0; is_check && i < MT_ARRAY_LEN(larger); i++)
		add_class(larger[i].pages, larger[i].slots);
	pool.pages++;
	if (!is_check)
		pool.size_max = SAMPLE_BYTES_MAX;
}

static int make_pool(void)
{
	size_t bytes = (size_t)pool.pages * PAGE;
	size_t tables = MT_ALIGN_UP(pool.count * sizeof(struct slot) + pool.pages, (size_t)PAGE);
	long at = mt_sys_mmap(NULL, bytes, MT_PROT_NONE,
			      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS | MT_MAP_NORESERVE, -1, 0);
	if (mt_sys_is_error(at))
		return (int)at;
	long table = mt_sys_mmap(NULL, tables, MT_PROT_READ | MT_PROT_WRITE,
				 MT_MAP_PRIVATE | MT_MAP_ANONYMOUS, -1, 0);
	if (mt_sys_is_error(table)) {
		mt_sys_munmap((void *)at, bytes);
		return (int)table;
	}
	pool.slot = (struct slot *)table;
	pool.reported = (uint8_t *)(pool.slot + pool.count);
	mt_rt.guard_base = (uintptr_t)at;
	mt_rt.guard_bytes = bytes;
	return 0;
}

/* A limit on address space is the program's first. */
static int may_be_large(void)
{
	enum { SHARE = 8 };
	struct mt_rlimit64 limit = {0, 0};
	return !mt_sys_getrlimit(MT_RLIMIT_AS, &limit) &&
	       (uint64_t)pool.pages * PAGE <= limit.cur / SHARE;
}

void mt_guard_begin(void)
{
	uint32_t slots = mt_rt.options.guard_slots;
	int is_check = mt_check.state == MT_CHECK_ON;
	if (!slots || pool.slot || !is_plain_provider())
		return;
	choose_classes(slots, is_check);
	if (is_check && !may_be_large())
		choose_classes(slots, 0);
	if (make_pool())
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
	h->guard_bytes = pool.bytes;
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

static void retire(uint32_t page)
{
	struct slot *s = page < pool.pages ? slot_of_page(page) : NULL;
	if (s)
		s->retired = 1;
}

/* Opens a page, or all of a block, after an error, for good. 0, or a negative errno value. */
static int open_pages(struct span span)
{
	if (span.first)
		retire(span.first - 1);
	retire(span.first);
	retire(span.first + span.count);
	return set_access(span, MT_PROT_READ | MT_PROT_WRITE);
}

/* --- allocation ---------------------------------------------------------------------------- */

/* The slot that was never used, or was freed first. */
static struct slot *best_slot(const struct class *c)
{
	struct slot *best = NULL;
	for (uint32_t i = 0; i < c->slots; i++) {
		struct slot *s = &pool.slot[c->first_slot + i];
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

static struct slot *claim_slot(size_t size)
{
	struct class *c = pool.class;
	while (size > (size_t)c->pages * PAGE)
		c++;
	for (int i = 0; i < CLAIM_TRIES; i++) {
		if (!__atomic_load_n(&c->available, __ATOMIC_RELAXED))
			return NULL;
		struct slot *s = best_slot(c);
		if (!s)
			return NULL;
		if (claim_as(s, SLOT_FRESH) || claim_as(s, SLOT_FREED)) {
			__atomic_fetch_sub(&c->available, 1, __ATOMIC_RELAXED);
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

/* Where the block begins: at the end of the slot, at some of all times at its start. */
static uint64_t place_in(struct mt_thread *t, const struct slot *s, size_t size, size_t align)
{
	const struct class *c = class_of(s);
	uint32_t number = (uint32_t)(s - pool.slot) - c->first_slot;
	uint64_t start = page_start(c->first_page + number * (c->pages + 1) + 1);
	uint64_t end = start + (uint64_t)c->pages * PAGE;
	int at_start = mt_rt.options.guard_side == MT_GUARD_SIDE_START ||
		       (mt_rt.options.guard_side == MT_GUARD_SIDE_EITHER &&
			(mt_random_next(&t->random) & 7) == 0);
	return at_start ? start : (end - MT_MAX(size, (size_t)1)) & ~(uint64_t)(align - 1);
}

static void fill_beside(uint64_t from, uint64_t to)
{
	for (uint64_t at = from; at < to; at++)
		*(volatile uint8_t *)at = BESIDE_BYTE;
}

/* Bytes of its pages before and behind the block that are watched. */
static void beside(const struct slot *s, uint64_t *ret_before, uint64_t *ret_end)
{
	struct span span = span_of(s);
	uint64_t from = page_start(span.first), to = page_start(span.first + span.count);
	uint64_t end = s->start + s->size;
	*ret_before = s->start - MT_MIN(s->start - from, (uint64_t)BESIDE);
	*ret_end = end + MT_MIN(to - end, (uint64_t)BESIDE);
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
	       size <= pool.size_max && t->family == MT_FAMILY_PLAIN && !mt_rt.sandboxed &&
	       align_of(p, call) <= ALIGN_MOST;
}

void *mt_guard_place(struct mt_thread *t, void *p, size_t size, enum mt_state_call call)
{
	uint64_t before, end;
	if (!may_place(t, p, size, call))
		return NULL;
	struct slot *s = claim_slot(size);
	if (!s) {
		__atomic_fetch_add(&mt_rt.hdr->guard_refused, 1, __ATOMIC_RELAXED);
		return NULL;
	}
	s->size = size;
	s->start = place_in(t, s, size, align_of(p, call));
	if (set_access(span_of(s), MT_PROT_READ | MT_PROT_WRITE)) {
		give_up_slot(s);
		return NULL;
	}
	pool.reported[page_of(s->start)] = 0;
	s->waits = 0;
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
	if (set_access(span_of(s), MT_PROT_NONE))
		s->retired = 1;
	int is_retired = s->retired != 0;
	set_state(s, SLOT_FREED);
	if (!is_retired)
		__atomic_fetch_add(&class_of(s)->available, 1, __ATOMIC_RELAXED);
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
	uint32_t node = how == MT_ENTER_TRACK ? mt_stack_node(&t->capture, caller) : 0;
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
	uint32_t node = how == MT_ENTER_TRACK ? mt_stack_node(&t->capture, caller) : 0;
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

/* The block is gone from the pool; real: where its contents went on, NULL: freed by size 0. */
static int leave_pool(enum mt_enter how, struct mt_thread *t, const struct mt_realloc *r,
		      struct slot *s, const void *real, const struct mt_caller *caller)
{
	struct mt_gone gone = {0};
	uint32_t node = how == MT_ENTER_TRACK ? mt_stack_node(&t->capture, caller) : 0;
	int fatal = check_beside(t, s, node);
	if (how == MT_ENTER_TRACK) {
		if (mt_record_take(t, r->old, &gone))
			mt_record_gone(t, &gone, 1);
		else
			mt_record_unknown(t, &gone);
		mt_count(&t->row->reallocs, real != NULL);
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
	int fatal = leave_pool(how, t, r, s, p, caller);
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

/* An access between two blocks belongs to the one that is nearer. */
static struct slot *nearest(uint32_t page, uint64_t address)
{
	struct slot *own = slot_of_page(page), *before, *after;
	if (own) {
		int is_before = address < own->start;
		before = own - is_before;
		after = own + !is_before;
	} else {
		before = page ? slot_of_page(page - 1) : NULL;
		after = page + 1 < pool.pages ? slot_of_page(page + 1) : NULL;
	}
	before = before >= pool.slot ? before : NULL;
	after = after < pool.slot + pool.count ? after : NULL;
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
	uint32_t node = how == MT_ENTER_TRACK ? interrupted(mt_stack_node(&t->capture, at)) : 0;
	e.use = mt_actor(t, node);
	if (s)
		fill_block(&e, s);
	find_kind(&e, s);
	mt_error_of_page(&e);
	if (how == MT_ENTER_TRACK)
		mt_leave(t);
}

/*
 * Another thread has just been given the block's page, or is about to be: the access, wrong as it
 * is, is made again. Not for ever: in a forked child that thread is not there.
 */
static int is_in_change(struct slot *s, uint32_t page)
{
	uint32_t state = state_of(s);
	if (state != SLOT_BUSY && !(state == SLOT_LIVE && is_of_block(s, page)))
		return 0;
	return __atomic_fetch_add(&s->waits, 1, __ATOMIC_RELAXED) < WAITS_MAX;
}

enum mt_guard_verdict mt_guard_judge(const struct mt_guard_fault *f, const struct mt_caller *at)
{
	struct span span = {page_of(f->address), 1};
	struct slot *own = slot_of_page(span.first), *s = own;
	int fatal = is_fatal(), of_block = is_of_block(own, span.first);
	if (own && is_in_change(own, span.first))
		return MT_GUARD_GO_ON;
	if (of_block && state_of(own) == SLOT_LIVE)
		return MT_GUARD_NOT_OURS;
	if (of_block)
		span = span_of(own);
	else
		s = own && !has_block(own) ? NULL : nearest(span.first, f->address);
	if (!fatal && open_pages(span)) /* cannot go on */
		fatal = 1;
	if (!pool.reported[span.first]) {
		pool.reported[span.first] = 1;
		report_fault(f, s, at, fatal);
	}
	return fatal ? MT_GUARD_FATAL : MT_GUARD_GO_ON;
}
