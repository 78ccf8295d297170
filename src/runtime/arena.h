/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_ARENA_H
#define MT_RUNTIME_ARENA_H

/*
 * Private memory of the tracker: one reserved mapping, handed out by bumping, never given back one
 * by one, dropped whole by a forked child. Starts as zeros. Any thread, async-signal-safe.
 */

#include "core/cc.h"

/* Reserves address space (less under RLIMIT_AS or strict overcommit). 0 or -ENOMEM. */
int mt_arena_reserve(void);

/* bytes of zeroed memory, aligned to 64 (to 4096 from 4096 bytes up), or NULL when there is no
 * room. */
void *mt_arena_take(size_t bytes);

/* Gives back address space from the arena's end, keeping room for as much again as is in use. */
void mt_arena_trim(uint64_t keep_bytes);

/* The whole arena goes: tracking did not come about. */
void mt_arena_give_up(void);

/*
 * In a forked child: everything becomes zeros, and free again but for [keep, keep + bytes): a hook
 * that the fork interrupted (in a signal handler) may still write there.
 */
void mt_arena_drop(const void *keep, size_t bytes);

/* The kept part, once, if it has this size; else NULL. */
void *mt_arena_take_kept(size_t bytes);

/*
 * As mt_arena_take(), for a table that grows with what is recorded: max-overhead counts it. NULL
 * also when that is used up.
 */
void *mt_arena_take_table(size_t bytes);

/* Gives back what mt_arena_take_table() gave, when nobody can look at it any more. */
void mt_arena_release_table(void *table, size_t bytes);

#endif
