/* SPDX-License-Identifier: MIT */
#ifndef MT_UNWIND_CAPTURE_H
#define MT_UNWIND_CAPTURE_H

/*
 * Call-stack capture for one thread: memo -> join with the last stack -> walk. Why a verified reuse
 * is exact: capture.c and docs/decisions/0004-capture-is-verified-reuse.md.
 *
 * The caller hands in the state at the call of the hooked function: SP (the CFA of the caller's
 * call: value of the stack pointer after the call returns), return address and frame pointer. It
 * gets back a token that it attached to the same (stack, tag) before, or 0 and the stack in full.
 *
 * Everything here is async-signal-safe as long as one thread's capture state is not re-entered (the
 * hook's guard sees to that), takes no lock, allocates nothing except through
 * mt_capture_memo_attach.
 */

#include "elf/modules.h"
#include "unwind/memo.h"
#include "unwind/stack.h"

enum { MT_DEPTH_MAX = 256 };

/* How a stack ended. Values go into the state file: never renumber. */
enum mt_stack_end {
	MT_STACK_COMPLETE = 1, /* at the thread's or program's entry (undefined return address) */
	MT_STACK_DEPTH = 2,    /* cut at the depth limit */
	MT_STACK_NO_INFO =
		3, /* code without unwind information (JIT, assembler), fallback failed */
	MT_STACK_UNSUPPORTED = 4, /* a rule that the unwinder does not evaluate */
	MT_STACK_UNREADABLE = 5,  /* the next frame lies outside the stack's mapping */
};
enum { MT_STACK_END_COUNT = 6 };

/* One frame. Outermost first in struct mt_capture. */
struct mt_frame {
	uintptr_t slot; /* CFA - 8 of the call (x86-64: where ra lies); 0: frame that may not be
			   reused */
	uintptr_t ra;   /* return address; for an interrupted frame (signal) the exact pc + 1 */
	uint64_t hash;  /* running hash from the outermost frame inward, end kind mixed in */
	uint32_t node; /* free for the caller: 0 when new (the runtime keeps its stack-tree node) */
	uint32_t flags; /* enum mt_frame_flags */
};

enum mt_frame_flags {
	MT_FRAME_EXACT_PC = 1, /* interrupted, not calling: symbolize ra - 1 as the exact pc */
	MT_FRAME_BY_FP = 2, /* reached by the frame-pointer fallback, not by unwind information */
};

/* What the unwinder counted in this thread; all by the owner thread, read by anybody (relaxed). */
struct mt_capture_counts {
	uint64_t captures, memo_misses, same_as_last, joined, frames_walked;
	uint64_t row_misses;
	uint64_t ends[MT_STACK_END_COUNT]; /* per capture that was not a memo hit */
	uint64_t fp_steps;                 /* frames found by the frame-pointer fallback */
};

/*
 * What the walk read to reach a frame: private to capture.c. x86-64: the return address lies below
 * sp.
 */
struct mt_frame_words {
	uintptr_t sp; /* CFA of the call: with ra the frame's identity */
	uintptr_t ra;
	uintptr_t fp;     /* frame pointer in this frame */
	uintptr_t fp_at;  /* where the step to this frame loaded it; 0: inherited from the inner
			     frame */
	uintptr_t cfa_at; /* where sp was read; 0: computed */
	uint64_t flags;
#if !defined(__x86_64__)
	uintptr_t ra_at; /* where ra was read; 0: given by the caller in a register */
	uintptr_t raw;   /* the word there, perhaps signed */
#endif
};

struct mt_capture {
	/* owner thread only; first what mt_capture_known() reads */
	struct mt_memo *memo_in_use; /* NULL while there is none, or it is paused */
	uint64_t change_seen;        /* mt_unwind.change_count at the last capture that looked */
	struct mt_stack_range stack; /* that held SP last */
	struct mt_capture_counts counts;
	uint32_t count;      /* frames of the last stack */
	uint32_t end;        /* enum mt_stack_end of the last stack */
	uint64_t hash;       /* identity of (last stack, tag): frames, end, tag */
	uint64_t tag;        /* of the last stack */
	uint32_t token;      /* of the last stack, 0: none yet */
	uint32_t depth_max;  /* 1..MT_DEPTH_MAX, set by mt_capture_init, mt_capture_set_depth */
	uint32_t generation; /* of the module list that the state below belongs to */
	uint32_t reserved;
	struct mt_memo *memo; /* NULL until attached */
	/* the rest up to frame is private to capture.c */
	struct mt_stack_range other[3]; /* stacks seen before */
	struct mt_stack_asked asked;
	uint32_t other_next;
	uint32_t reuse_below;  /* frames with a lower index may be joined */
	uint32_t memo_ready;   /* the last stack may go into the memo */
	uint32_t memo_off_for; /* adaptive: captures without a look into the memo */
	uint64_t memo_since, memo_misses_before;     /* adaptive: start of the window */
	uint32_t join_off_for, join_seen, join_done; /* adaptive: captures that were no memo hit */
	uint32_t join_walked, join_frames;
	struct mt_frame frame[MT_DEPTH_MAX + 1]; /* outermost first */
	/* fresh frames from the middle downward (innermost first), kept ones upward (as frame[]) */
	struct mt_frame_words words[2 * (MT_DEPTH_MAX + 1)];
};

/* Row cache shared by all threads of the process: one per process, in memory that starts as zeros.
 */
struct mt_row_cache;
size_t mt_row_cache_bytes(void);
size_t mt_memo_bytes(void);

/* What the unwinder needs of the process. One object, set up before the first capture. */
struct mt_unwind {
	struct mt_row_cache *rows;
	/* current module list, published with release; the unwinder loads it with acquire */
	const struct mt_module_list *modules;
	int no_calls; /* 1: no system call may be made, so what is not known to be readable is not
			 read */
	/*
	 * Rises whenever a module may have come or gone (written by the loader's notifier or by a
	 * hook; any change of value counts), before `modules` changes. The unwinder loads it once a
	 * capture (acquire); when it differs from the value it last saw it calls on_change before
	 * using any cached row or remembered stack.
	 */
	volatile uint64_t change_count;
	/*
	 * Brings `modules` up to date. 0: it is as of the count before the call, or later. Else
	 * this capture uses no module, and the next one asks again.
	 */
	int (*on_change)(void);
};

/* The process-wide object; all zero means "not set up" and every capture then ends NO_INFO. */
extern struct mt_unwind mt_unwind MT_HIDDEN;

/* c is zeroed memory. Thread's owner only. */
void mt_capture_init(struct mt_capture *c, uint32_t depth_max);

/* memo: zeroed memory of mt_memo_bytes(), or memory detached from another (ended) thread. */
void mt_capture_memo_attach(struct mt_capture *c, struct mt_memo *memo);

/* Forgets everything that was cached for this thread (after fork, for a reused thread state). */
void mt_capture_reset(struct mt_capture *c);

/* Another limit of frames; what is cached is forgotten. The limit before. */
MT_INLINE uint32_t mt_capture_set_depth(struct mt_capture *c, uint32_t depth_max)
{
	uint32_t before = c->depth_max;
	c->depth_max = depth_max;
	mt_capture_reset(c);
	return before;
}

/* The address without a pointer-authentication code. */
MT_INLINE uintptr_t mt_strip_code(uintptr_t ra)
{
#if defined(__aarch64__)
	if (MT_UNLIKELY(ra >> 48)) {
		register uintptr_t x30 __asm__("x30") = ra;
		__asm__("hint #7" : "+r"(x30)); /* xpaclri; no effect before ARMv8.3 */
		ra = x30;
	}
#endif
	return ra;
}

/* The first half of mt_capture_stack(): 1 and *ret_token if the memo knows the stack, else 0. */
MT_INLINE int mt_capture_known(struct mt_capture *c, uintptr_t sp, uintptr_t ra, uintptr_t fp,
			       uint64_t tag, uint32_t *ret_token)
{
	const struct mt_memo *memo = c->memo_in_use;
	c->counts.captures++;
	if (MT_UNLIKELY(!memo || __atomic_load_n(&mt_unwind.change_count, __ATOMIC_ACQUIRE) !=
					 c->change_seen))
		return 0;
	const struct mt_memo_entry *e =
		mt_memo_find(memo, sp, mt_strip_code(ra), fp, tag, c->stack.hi);
	if (MT_UNLIKELY(!e))
		return 0;
	*ret_token = e->token;
	return 1;
}

/* The second half, when the first knew nothing: join with the last stack, or walk. */
uint32_t mt_capture_unknown(struct mt_capture *c, uintptr_t sp, uintptr_t ra, uintptr_t fp,
			    uint64_t tag);

/*
 * Captures the stack that begins at the caller whose call returns to `ra`. `tag` takes part in the
 * identity (heap, function kind, label). Returns the token that mt_capture_remember() attached to
 * the same stack and tag, or 0: then c->frame[0..count) holds the stack, c->end and c->hash are
 * set, and nodes of frames shared with the previous stack are kept (frame[i].node != 0). When a
 * token is returned c->count/frame need not describe this stack.
 */
MT_INLINE uint32_t mt_capture_stack(struct mt_capture *c, uintptr_t sp, uintptr_t ra, uintptr_t fp,
				    uint64_t tag)
{
	uint32_t token;
	if (mt_capture_known(c, sp, ra, fp, tag, &token))
		return token;
	return mt_capture_unknown(c, sp, ra, fp, tag);
}

/* Captures that the memo answered. */
MT_INLINE uint64_t mt_capture_memo_hits(const struct mt_capture *c)
{
	return c->counts.captures - c->counts.memo_misses;
}

/* Attaches token (not 0) to the stack that the last mt_capture_stack() of this thread described. */
void mt_capture_remember(struct mt_capture *c, uint32_t token);

#endif
