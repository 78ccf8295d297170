/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_H
#define MT_RUNTIME_CHECK_H

/*
 * Check mode: each call of the malloc family goes through here instead of the ways of the other
 * modes. A block may get a header and guards around it (check_block.h); the live table knows it by
 * the address that the program has, with the size that it asked for. docs/check.md.
 */

#include "runtime/check_options.h"
#include "runtime/provider.h"
#include "runtime/record.h"

enum mt_check_state {
	MT_CHECK_UNKNOWN = 0, /* the tracker has not started */
	MT_CHECK_OFF = 1,
	MT_CHECK_ON = 2, /* for good: blocks have headers, also in forked children */
};

struct mt_check {
	uint32_t state;     /* enum mt_check_state */
	uint32_t limited;   /* 1: only_...: not all blocks are checked */
	uint32_t capturing; /* 1: allocations' stacks are kept; a signal may switch it. atomic */
	struct mt_check_options options;
	char program[256]; /* argv[0] as given */
};
extern struct mt_check mt_check MT_HIDDEN;

/*
 * Check mode begins with these options. Start-up, once the state file is there. 0, or a negative
 * errno value: it does not come about.
 */
int mt_check_begin(const struct mt_check_options *o, const char *program);

/* The tracker has started without check mode, or not at all. */
void mt_check_is_not_wanted(void);

/* In a forked child: no other thread is at anything. */
void mt_check_forget(void);

/* The tracker is started if need be. */
int mt_check_find_out(void);

/* 1: calls go through check mode. */
MT_INLINE int mt_check_is_on(void)
{
	uint32_t state = __atomic_load_n(&mt_check.state, __ATOMIC_RELAXED);
	return MT_UNLIKELY(state != MT_CHECK_OFF) && (state == MT_CHECK_ON || mt_check_find_out());
}

/*
 * 1: this call of a family goes through check mode: the family gives blocks of the plain family's
 * allocator. What that calls itself, under its own names, stays the family's.
 */
MT_INLINE int mt_check_has(enum mt_family family)
{
	const struct mt_thread *t = mt_thread_self();
	return (mt_provider.doors >> family & 1) && mt_check_is_on() && !(t && t->depth);
}

/*
 * Whole calls. call: what the program called, for the report; source: as of mt_record_alloc().
 * They set errno as the C library does, and keep it otherwise.
 */
void *mt_check_malloc(size_t size, enum mt_state_call call, const struct mt_caller *caller,
		      uint64_t source);
void *mt_check_calloc(size_t n, size_t each, const struct mt_caller *caller, uint64_t source);
void *mt_check_realloc(void *old, size_t size, const struct mt_caller *caller, uint64_t source);
void *mt_check_reallocarray(void *old, size_t n, size_t each, const struct mt_caller *caller);
void *mt_check_memalign(size_t align, size_t size, enum mt_state_call call,
			const struct mt_caller *caller);
void *mt_check_aligned_alloc(size_t align, size_t size, const struct mt_caller *caller);
int mt_check_posix_memalign(void **out, size_t align, size_t size, const struct mt_caller *caller);
void *mt_check_pvalloc(size_t size, const struct mt_caller *caller);
void mt_check_free(void *p, enum mt_state_call call, const struct mt_caller *caller);
size_t mt_check_usable_size(const void *p, const struct mt_caller *caller);

/* The most frequent, as the last step of their hooks: they see the hook's own caller. */
void *mt_check_malloc_hook(size_t size);
void mt_check_free_hook(void *p);

/*
 * The same for the most usual options (check_fast.c): no guards (bare), or guards of the usual
 * size; watched: with fills or free_track as well. mt_check_way(): which of them serve this
 * process's options and this thread, enum mt_other_way.
 */
void *mt_check_bare_malloc_hook(size_t size);
void mt_check_bare_free_hook(void *p);
void *mt_check_guarded_malloc_hook(size_t size);
void mt_check_guarded_free_hook(void *p);
void *mt_check_watched_malloc_hook(size_t size);
void mt_check_watched_free_hook(void *p);
void *mt_check_guarded_watched_malloc_hook(size_t size);
void mt_check_guarded_watched_free_hook(void *p);
void *mt_check_calloc_hook(size_t n, size_t each);
size_t mt_check_usable_size_hook(const void *p);
uint32_t mt_check_way(const struct mt_thread *t);

/*
 * The rest of a malloc or calloc after the allocator gave `original`, or NULL, for size and what
 * the layout adds. Guard held; it is let go.
 */
void *mt_check_finish_malloc(struct mt_thread *t, void *original, size_t size,
			     enum mt_state_call call, const struct mt_caller *caller);

/* The function that made a block of this cell; 0: not known. */
MT_INLINE uint32_t mt_check_made_by(uint32_t cell)
{
	return cell ? mt_rt.sites[mt_rt.cells[cell].site].call : 0;
}

/* 1: a block that alloc_call made (0: not known) may be freed by `call`. */
MT_INLINE int mt_check_goes_with(uint32_t alloc_call, enum mt_state_call call)
{
	if (!alloc_call)
		return 1;
	if (alloc_call == MT_CALL_NEW)
		return call == MT_CALL_DELETE;
	if (alloc_call == MT_CALL_NEW_ARRAY)
		return call == MT_CALL_DELETE_ARRAY;
	return call != MT_CALL_DELETE && call != MT_CALL_DELETE_ARRAY;
}

/*
 * operator new or delete is about to go on to malloc or free, which shall know who called: with
 * this size or pointer. sp: where the operator's frame stands.
 */
void mt_check_expect(enum mt_state_call call, uint64_t size_or_pointer, uintptr_t sp);

/* 1: the stacks of allocations are kept at this moment. */
MT_INLINE int mt_check_captures(void)
{
	return MT_PEEK(&mt_check.capturing) != 0;
}

/* Lets the guard go; ends the program if a report has said so. */
void mt_check_die(struct mt_thread *t);
MT_INLINE void mt_check_leave(struct mt_thread *t)
{
	if (MT_UNLIKELY(t->dying))
		mt_check_die(t);
	else
		mt_leave(t);
}

#endif
