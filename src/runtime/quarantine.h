/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_QUARANTINE_H
#define MT_RUNTIME_QUARANTINE_H

/*
 * Freed blocks that are held back (free_track), filled, until newer ones push them out: a write to
 * one is seen when it leaves, and its second free is named with the first one's stack. First in,
 * first out, bounded by count and by bytes. Private memory outside of the arena: a forked child
 * keeps it.
 */

#include "runtime/check.h"

/* A freed block. */
struct mt_held {
	uint64_t p;        /* the program's pointer, 0: none */
	uint64_t original; /* the allocator's */
	uint64_t size;     /* asked for */
	uint64_t usable;
	uint64_t filled; /* bytes from p that hold MT_BYTE_FREE */
	uint32_t has_header;
	uint32_t alloc_call, alloc_cell;
	int pid;          /* whose tables the numbers are of */
	int told_by;      /* process that reports it at this moment, and keeps it here; 0: none */
	uint32_t is_told; /* 1: what is wrong with it was reported */
	struct mt_state_actor free;
};

/* Makes room for so many. 0 or a negative errno value. Start-up. */
int mt_quarantine_begin(uint32_t count, uint64_t bytes);

/*
 * Takes a block in; what has to leave for it is checked and freed. 0, or a negative value and the
 * block is still the caller's (no lock, it alone is more than the bound, or what has to leave is
 * being reported). Guard held.
 */
int mt_quarantine_add(struct mt_thread *t, const struct mt_held *block);

/*
 * There is no memory for a request of this size: if no less is held back, all leaves, as for
 * mt_quarantine_add(). 1: it is worth another try. Guard held.
 */
int mt_quarantine_give_back(struct mt_thread *t, uint64_t wanted);

/* Copies what is known of a block that is held back: 1, or 0. Any thread. */
int mt_quarantine_find(uint64_t p, struct mt_held *ret_block);

/* The block that holds an address, its guards included. */
int mt_quarantine_find_inside(uint64_t address, struct mt_held *ret_block);

/* Checks all that are held back, in their order, and reports once; none is freed. Guard held. */
void mt_quarantine_check_all(struct mt_thread *t);

/* In a forked child: no other thread is at it. */
void mt_quarantine_forget(void);

#endif
