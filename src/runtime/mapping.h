/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_MAPPING_H
#define MT_RUNTIME_MAPPING_H

/*
 * Mappings that the program makes itself (mmap, mremap, brk, sbrk), as heaps of their own: a set of
 * disjoint ranges, cut and split as munmap, MAP_FIXED and mremap cut and split them. Mappings made
 * inside libc (the allocator's own, thread stacks) do not pass our hooks and are not in it.
 */

#include "runtime/rt.h"

/* [address, address + bytes) is new memory; what it covers is gone. */
void mt_mapping_add(struct mt_thread *t, uint32_t heap, uint64_t address, uint64_t bytes,
		    enum mt_state_call call, const struct mt_caller *caller);

/* [address, address + bytes) is gone, wholly or in part known to us or not at all. */
void mt_mapping_remove(struct mt_thread *t, uint64_t address, uint64_t bytes);

/* In a forked child. */
void mt_mapping_forget(void);

#endif
