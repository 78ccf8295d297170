/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_GUARD_H
#define MT_RUNTIME_GUARD_H

/*
 * Guarded blocks: a sampled block, or in check mode one of those that guard_page is for, may be
 * moved into a pool of pages with inaccessible pages between them.
 *
 *   | none | slot 0 | none | slot 1 | none | ... | slot n-1 | none |
 *
 * A slot is a page; check mode has some of more pages behind these. A block lies at the end of its
 * slot (or at the start), so that an access behind (before) it faults. Only the pages that it needs
 * are accessible, and none once it is freed, until the slot is needed again, the one that was freed
 * first before others. The fault handler (fault.c) tells what happened.
 *
 * The pool is private memory outside of the arena: a forked child frees the blocks that it
 * inherited as any others. No lock: a slot is claimed by a compare-and-swap of its state. Nothing
 * of the pool may ever reach the allocator.
 */

#include "runtime/record.h"

/* Whether an address lies in the pool. */
MT_INLINE int mt_guard_holds(const void *p)
{
	return MT_UNLIKELY((uintptr_t)p - mt_rt.guard_base < mt_rt.guard_bytes);
}

/* Makes the pool that the options ask for, and puts up the fault handler. Start-up. */
void mt_guard_begin(void);

/* In the state file of this process: what the pool is. Start-up, and in a forked child. */
void mt_guard_describe(void);

/* No more blocks are placed (the program loads a library that may not see our free). */
void mt_guard_stop(void);

/*
 * Moves a new block of the plain family with its contents into the pool: its new place, or NULL and
 * it stays where it is. Guard held. The real block is freed.
 */
void *mt_guard_place(struct mt_thread *t, void *p, size_t size, enum mt_state_call call);

/* A placed block has been recorded in this cell, 0: none. */
void mt_guard_made(struct mt_thread *t, const void *p, uint32_t cell);

/* Size of a block of the pool as it was asked for, and as STATS counts it; 0: it is none. */
size_t mt_guard_size(const void *p);
size_t mt_guard_usable(const void *p);

/*
 * A whole free() of an address in the pool: how and t as of mt_enter(); the guard is still held
 * after it on TRACK. What is no live block is reported. 1: the program is to be ended by
 * mt_guard_die() once the guard is let go.
 */
int mt_guard_free(enum mt_enter how, struct mt_thread *t, void *p, const struct mt_caller *caller);

/* The same from mt_enter() to the end, for hooks that do nothing else. */
void mt_guard_free_call(void *p);

/* A whole realloc of an address in the pool; as mt_record_realloc(). */
void *mt_guard_realloc(enum mt_enter how, struct mt_thread *t, const struct mt_realloc *r,
		       const struct mt_caller *caller, uint64_t source);

/* Ends the process as the allocator does when it finds its heap damaged. */
void mt_guard_die(void);

/* --- for the handler --- */

enum mt_guard_verdict {
	MT_GUARD_NOT_OURS,
	MT_GUARD_GO_ON, /* the access may be made again */
	MT_GUARD_FATAL, /* it is the program's end, or its own handler's */
};

/* What the handler knows of a fault. */
struct mt_guard_fault {
	uint64_t address, pc;
	uint32_t signal;
	enum mt_state_access access;
};

/*
 * Judges a fault at an address of the pool and reports it once. Runs on a stack of its own, with
 * signals blocked.
 */
enum mt_guard_verdict mt_guard_judge(const struct mt_guard_fault *f, const struct mt_caller *at);

/* Puts up the handler for faults. 0 or a negative errno value. */
int mt_fault_begin(void);

/* In a forked child: no other thread is in the handler. */
void mt_fault_forget(void);

#endif
