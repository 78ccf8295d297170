/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_RECORD_H
#define MT_RUNTIME_RECORD_H

/*
 * What happens to the tables when a block comes, goes or moves. Callers hold the thread's guard
 * (t->depth != 0). No lock and no system call on the common path; no shared line is written.
 *
 * Order of the words matters, since the process may be killed between any two stores: a record is
 * complete before its `place` is set, and `place` is cleared before anything else on the way out.
 */

#include "runtime/control.h"
#include "runtime/rt.h"
#include "runtime/thread.h"

/* A block that was taken out of the tables. */
struct mt_gone {
	uint64_t size;
	uint32_t cell;
	uint32_t unit;
	uint32_t sequence;
	uint32_t record; /* live record number, 0: large */
	uint64_t address;
	uint64_t usable;  /* bytes that STATS counts for it */
	uint32_t counted; /* 1: STATS does count it */
};

enum mt_enter {
	MT_ENTER_PASS = 0, /* not tracked: call the original and nothing else */
	MT_ENTER_TRACK = 1,
	MT_ENTER_NESTED = 2, /* inside the tracker in this thread */
};

/*
 * Begins a hook: starts the tracker or the thread's state if need be, notices a fork. On TRACK the
 * guard is taken and *ret_thread set: end with mt_leave(). On NESTED *ret_thread is set too.
 */
enum mt_enter mt_enter_slow(struct mt_thread **ret_thread, uintptr_t sp);

/*
 * The quick half for the calling thread's own t, which may be NULL: the thread with its guard
 * taken, or NULL and nothing is changed. sp: where the hook's frame stands, its CFA. The guard
 * writes that down: a hook that is entered at or above that place tells that the one which took the
 * guard was left by a jump.
 */
MT_INLINE struct mt_thread *mt_enter_as(struct mt_thread *t, uintptr_t sp)
{
	if (MT_UNLIKELY(!t || t->depth))
		return NULL;
	t->depth = sp;
	MT_SIGNAL_FENCE();
	/*
	 * Asked after the guard is up: a signal handler that forks before it makes a child in which
	 * this state is gone, one that forks after it makes a child that knows.
	 */
	if (MT_LIKELY(mt_thread_self_again() == t && mt_rt_wipe[0]))
		return t;
	if (mt_thread_self_again() == t)
		t->depth = 0;
	return NULL;
}

MT_INLINE struct mt_thread *mt_enter_quick(uintptr_t sp)
{
	return mt_enter_as(mt_thread_self(), sp);
}

/* Both halves: for a hook itself, and what it inlines. */
MT_INLINE enum mt_enter mt_enter(struct mt_thread **ret_thread)
{
	uintptr_t sp = (uintptr_t)__builtin_dwarf_cfa();
	*ret_thread = mt_enter_quick(sp);
	return MT_LIKELY(*ret_thread != NULL) ? MT_ENTER_TRACK : mt_enter_slow(ret_thread, sp);
}

/* Counts the frees of nested calls, after the guard was released. */
void mt_settle(void);

/* In a forked child: no free record is shared. */
void mt_record_forget(void);

/* Sets which sizes are plain from the options: wanted, small, and not to be verified. */
void mt_record_set_plain(void);

/* Lets the guard go; 1: mt_settle() is to be called. */
MT_INLINE int mt_leave_quick(struct mt_thread *t)
{
	MT_SIGNAL_FENCE();
	t->depth = 0;
	MT_SIGNAL_FENCE();
	/* asked last, so that nothing that a handler leaves behind waits for the next call */
	return MT_UNLIKELY(t->settle != 0);
}

MT_INLINE void mt_leave(struct mt_thread *t)
{
	if (mt_leave_quick(t))
		mt_settle();
}

/* 1 while new allocations are to be recorded (switch in the state file's header). */
MT_INLINE int mt_recording(void)
{
	return (int)(__atomic_load_n(&mt_rt.hdr->control, __ATOMIC_RELAXED) & 1);
}

/*
 * Brings the header's live bytes and peak up to date with a thread's row. Several threads: the
 * owner does so in steps. Anybody may while the owner is the only thread, or when it is dead.
 */
void mt_record_publish_live(struct mt_state_thread *row);

/*
 * A new block of the malloc heap: where it lies from now on (a sample may be moved between guard
 * pages). source: file and line from the macro door, or 0.
 */
void *mt_record_alloc(struct mt_thread *t, void *p, size_t size, enum mt_state_call call,
		      const struct mt_caller *caller, uint64_t source);

/*
 * Takes a block of the malloc heap out of the tables: 1, or 0 when it is not known. Counts nothing:
 * mt_record_gone() or mt_record_unknown() does. The block is still the allocator's.
 */
int mt_record_take(struct mt_thread *t, const void *p, struct mt_gone *ret_gone);

/* What mt_record_take() would take: 1, or 0 when the block is not known. Changes nothing. */
int mt_record_find(const void *p, struct mt_gone *ret_gone);

/* A new block of the malloc heap whose stack is not wanted. Guard held. */
void mt_record_without_stack(struct mt_thread *t, const void *p, size_t size);

/* Puts back what mt_record_take() took: the allocator did not move the block after all. */
void mt_record_restore(struct mt_thread *t, const void *p, const struct mt_gone *gone);

/* Counts a block that was taken out as freed by this thread. is_realloc: not a temporary. */
void mt_record_gone(struct mt_thread *t, const struct mt_gone *gone, int is_realloc);

/* Counts a block that mt_record_take() did not know as freed by this thread. */
void mt_record_unknown(struct mt_thread *t, const struct mt_gone *gone);

/* free(): take and count; an unknown address is counted as such. */
void mt_record_free(struct mt_thread *t, const void *p);

/* A block that a nested call got (how), or NULL: counted, unless the outer call returns it. */
void *mt_record_nested(enum mt_enter how, struct mt_thread *t, void *p);

/* The present call returns this block: it counts as its own, not as a nested one. */
void mt_record_returned(struct mt_thread *t, const void *p);

/*
 * What fast.h leaves over; the guard is held, and let go at the end. A malloc of which nothing is
 * recorded yet, or (its stack was looked for in the memo) but the stack is unknown, or the cell is
 * known. They return p.
 */
void *mt_record_malloc(struct mt_thread *t, void *p, size_t size, uintptr_t sp, uintptr_t ra,
		       uintptr_t fp);
void *mt_record_malloc_unknown(struct mt_thread *t, void *p, size_t size, uintptr_t sp,
			       uintptr_t ra, uintptr_t fp);
void *mt_record_malloc_in_cell(struct mt_thread *t, void *p, size_t size, uint32_t cell);

/* free() of a nested call: the block leaves the tables now, the counters follow at mt_leave(). */
void mt_record_free_nested(struct mt_thread *t, const void *p);

/*
 * Ends a hook that may have got a block: records it, lets the guard go, returns p. A block that a
 * nested call had got, and was counted as missed, is the outer call's.
 */
MT_INLINE void *mt_finish_alloc(struct mt_thread *t, void *p, size_t size, enum mt_state_call call,
				const struct mt_caller *caller, uint64_t source)
{
	if (MT_UNLIKELY(!p)) {
		mt_count(&t->row->failed_allocs, 1);
	} else {
		if (MT_UNLIKELY(t->settle))
			mt_record_returned(t, p);
		if (MT_UNLIKELY(mt_control_changed(t)))
			mt_control_take(t);
		if (MT_LIKELY(mt_recording()))
			p = mt_record_alloc(t, p, size, call, caller, source);
		else
			t->stream.before = 0; /* of realloc, say */
	}
	mt_leave(t);
	return p;
}

/* A call that resizes a block: `call` runs the original with the arguments below it. */
struct mt_realloc {
	void *(*call)(const struct mt_realloc *r);
	void *original;
	void *old;
	size_t n, each;
	size_t size; /* what the call asks for */
};

/*
 * A whole realloc after mt_enter(): the old block leaves the tables before the original runs
 * (another thread may get its address at once) and comes back when the call fails. Returns what the
 * original did.
 */
void *mt_record_realloc(enum mt_enter how, struct mt_thread *t, const struct mt_realloc *r,
			const struct mt_caller *caller, uint64_t source);

/* A free after mt_enter(), p is not NULL. The thread whose guard is still held, or NULL. */
struct mt_thread *mt_record_free_entered(enum mt_enter how, struct mt_thread *t, const void *p);

/*
 * Before and after an original that frees p, which may be NULL. The guard is held in between: an
 * allocator's operator delete may come back through free() with the same block, which is to be
 * counted once. begin's result goes to end.
 */
MT_INLINE struct mt_thread *mt_record_delete_begin(const void *p)
{
	struct mt_thread *t;
	if (!p)
		return NULL;
	enum mt_enter how = mt_enter(&t);
	t = mt_record_free_entered(how, t, p);
	if (t)
		t->going = (uint64_t)p;
	return t;
}

MT_INLINE void mt_record_delete_end(struct mt_thread *t)
{
	if (!t)
		return;
	t->going = 0;
	mt_leave(t);
}

/* What a free() does before its original, where that cannot come back with the same block. */
MT_INLINE void mt_record_free_call(const void *p)
{
	mt_record_delete_end(mt_record_delete_begin(p));
}

/*
 * For originals that run without the guard because they may throw. Before the call: the thread has
 * recorded no block yet. After it: the record of the block, unless a hook inside the call saw it.
 */
void mt_record_watch(void);
void *mt_record_unseen(void *p, size_t size, enum mt_state_call call,
		       const struct mt_caller *caller);

/* A block of a registered heap (number >= MT_HEAP_FIRST_CUSTOM). */
void mt_record_custom_alloc(struct mt_thread *t, uint32_t heap, const void *p, size_t size,
			    const struct mt_caller *caller);
void mt_record_custom_free(struct mt_thread *t, uint32_t heap, const void *p);

/* Cell of a mapping or sbrk growth, counted there and in the thread's class totals. */
uint32_t mt_record_mapping_alloc(struct mt_thread *t, uint32_t heap, uint64_t size,
				 enum mt_state_call call, const struct mt_caller *caller);
void mt_record_mapping_gone(struct mt_thread *t, uint32_t heap, uint32_t cell, uint64_t size,
			    uint32_t unit, int whole);

#endif
