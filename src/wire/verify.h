/* SPDX-License-Identifier: MIT */
#ifndef MT_WIRE_VERIFY_H
#define MT_WIRE_VERIFY_H

/*
 * The board on which tracked processes ask the launcher whether a call stack is right (verify=N): a
 * file MT_VERIFY_NAME in the launcher's state directory, mapped by both. A thread fills a slot and
 * waits, for a bounded time; the launcher unwinds the waiting thread's stack from outside and
 * answers. Nothing here outlives the run: no version is promised. See
 * docs/decisions/0010-verified-from-outside.md.
 */

#include "core/cc.h"

#define MT_VERIFY_NAME "verify"
#define MT_VERIFY_MAGIC 0x7972666976746d01u

enum {
	MT_VERIFY_SLOTS = 16,
	MT_VERIFY_FRAMES = 256,
	MT_VERIFY_REGISTERS = 32, /* by DWARF number */
};

/* Who may change a slot's other words: FREE nobody, FILLING and ANSWERED the asker, else both. */
enum mt_verify_state {
	MT_VERIFY_FREE = 0,
	MT_VERIFY_FILLING = 1,
	MT_VERIFY_ASKED = 2,
	MT_VERIFY_WORKING = 3,  /* the launcher is at it */
	MT_VERIFY_ANSWERED = 4, /* verdict is set */
	MT_VERIFY_LEFT = 5,     /* the asker went on meanwhile: the launcher frees the slot */
};

/* Indexes of mt_state_thread.verify_unsure are the last ones minus MT_VERIFY_UNSURE. */
enum mt_verify_verdict {
	MT_VERIFY_SAME = 1,
	MT_VERIFY_WRONG = 2,
	MT_VERIFY_UNSURE = 3,
	MT_VERIFY_UNANSWERED = 3, /* nobody there, or not in time */
	MT_VERIFY_UNREADABLE = 4, /* the process's memory or modules cannot be read from outside */
	MT_VERIFY_GAVE_UP = 5,    /* the other unwinder knows less than ours here */
	MT_VERIFY_VERDICTS = 6,
};

struct mt_verify_frame {
	uint64_t pc;    /* as in mt_state_node */
	uint32_t exact; /* 1: MT_NODE_EXACT */
	uint32_t by_fp; /* 1: MT_FRAME_BY_FP */
};

struct mt_verify_slot {
	uint32_t state; /* enum mt_verify_state, atomic; the asker waits on it */
	uint32_t verdict;
	int32_t pid;
	uint32_t count, end; /* of the recorded stack; end: enum mt_stack_end */
	uint32_t depth;      /* frames that are kept of a stack */
	uint64_t start_ns;   /* mono_start_ns of the asker's state file: which program of the pid */
	uint64_t modules;    /* another value: the modules may be others */
	uint64_t pc;         /* where the registers below were taken */
	uint64_t reg[MT_VERIFY_REGISTERS];
	struct mt_verify_frame frame[MT_VERIFY_FRAMES]; /* innermost first, without a SOURCE node */
};

struct mt_verify_board {
	uint64_t magic;
	uint32_t bell;   /* rises with each question; the launcher waits on it, atomic */
	uint32_t closed; /* 1: nobody answers any more, atomic */
	uint64_t reserved[6];
	struct mt_verify_slot slot[MT_VERIFY_SLOTS];
};

#endif
