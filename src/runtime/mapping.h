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

/* Given to what is added; rises. What is recorded after the call has a higher one. */
uint32_t mt_mapping_stamp(void);

/*
 * [address, address + bytes) is about to be moved away: 1 when any of it is known. Until
 * mt_mapping_moved() or mt_mapping_stays() a range in it goes as a whole when another thread maps
 * a part of its place, which the kernel has made free by then.
 */
int mt_mapping_leaves(uint64_t address, uint64_t bytes);

/* It was moved away: it is removed, but for what is newer than stamp. */
void mt_mapping_moved(struct mt_thread *t, uint64_t address, uint64_t bytes, uint32_t stamp);

/* It was not. */
void mt_mapping_stays(uint64_t address, uint64_t bytes);

/* In a forked child. */
void mt_mapping_forget(void);

#endif
