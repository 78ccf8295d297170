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

enum mt_mapping_leave { MT_MAPPING_GOES, MT_MAPPING_STAYS };

/*
 * [address, address + bytes) was moved away (GOES: it is removed, but for what is newer than stamp)
 * or shown at a second place (STAYS: nothing changes). 1 when any of it was known.
 */
int mt_mapping_leave(struct mt_thread *t, uint64_t address, uint64_t bytes,
		     enum mt_mapping_leave how, uint32_t stamp);

/* In a forked child. */
void mt_mapping_forget(void);

#endif
