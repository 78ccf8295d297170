/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_UNTRACKED_H
#define MT_RUNTIME_CHECK_UNTRACKED_H

/*
 * Calls of check mode that mt_enter() does not let be tracked: nested ones, and those after the
 * tracker has stopped. Nothing is checked, but a block of ours still has a header.
 */

#include "runtime/check_block.h"

/* A new block p is the allocator's own, and stays so. Returns p. */
void *mt_check_let_pass(enum mt_enter how, struct mt_thread *t, void *p);

/* 1: a block of ours with a header, as far as its memory tells. */
int mt_check_reads_header(const void *p, struct mt_header *ret_header);

/* The right pointer is freed. */
void mt_check_free_untracked(enum mt_enter how, struct mt_thread *t, void *p);

void *mt_check_realloc_untracked(enum mt_enter how, struct mt_thread *t, void *old, size_t size);

size_t mt_check_usable_untracked(const void *p);

#endif
