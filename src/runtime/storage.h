/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_STORAGE_H
#define MT_RUNTIME_STORAGE_H

/*
 * The state file as its writer sees it: creation, and elements of its regions. A page is written
 * only after the kernel gave storage for it (a full tmpfs must not become SIGBUS). No descriptor is
 * kept.
 */

#include "runtime/rt.h"

/* Creates and maps the file and writes its header. 0, or a negative errno value (nothing is left).
 */
int mt_storage_create(void);

/* Removes the file's name (leak_report at exit, failed start). */
void mt_storage_unlink(void);

/* Undoes mt_storage_create(), before anything else was done with it. */
void mt_storage_withdraw(void);

/* When a process started, in the kernel's ticks, from its /proc/PID/stat; 0: unknown. */
uint64_t mt_storage_process_start(const char *stat_path);

/* In a forked child: private zero pages take the place of the parent's file. */
void mt_storage_detach(void);

/*
 * Hands out `count` consecutive elements: index of the first (never 0), or 0 when the region is
 * full or the kernel gave no storage (counted in the region's `refused` and, for storage, in
 * lost[]). Any thread; waits for another thread's growth for a bounded time.
 */
uint32_t mt_storage_take(enum mt_state_region_kind kind, uint32_t count);

/*
 * Gives storage to the elements of a region up to `index`, for regions that go by another one's
 * numbers. 0, or a negative value (counted as above).
 */
int mt_storage_cover(enum mt_state_region_kind kind, uint32_t index);

/* Unmaps a file: our own, or a forked child's view of its parent's. */
void mt_storage_unmap(struct mt_state_header *hdr);

/*
 * Gives back address space behind what is in use, keeping room for as much again (at least
 * keep_bytes in all): the tables' capacities shrink. For programs that lock or limit their memory.
 */
void mt_storage_trim(uint64_t keep_bytes);

/* Takes storage in advance for a time in which none can be asked for. */
void mt_storage_reserve(void);

/* What the tables take that grow with the number of call stacks, and the most that they may. */
uint64_t mt_storage_stacks(void);
uint64_t mt_storage_stacks_most(void);

/* Notes a late pair of clock readings, from which readers take the rate. */
void mt_storage_mark_time(void);

/* Copies a string into the STRINGS region: its offset, or 0 (empty, or no room). */
uint32_t mt_storage_string(const char *s);

/* Start of a region's elements in our mapping. */
MT_INLINE void *mt_storage_base(enum mt_state_region_kind kind)
{
	return (char *)mt_rt.hdr + mt_rt.region[kind]->offset;
}

/* Elements that may be read, element 0 and free ones among them. */
MT_INLINE uint64_t mt_storage_in_use(enum mt_state_region_kind kind)
{
	const struct mt_state_region *r = mt_rt.region[kind];
	uint64_t used = __atomic_load_n(&r->used, __ATOMIC_RELAXED);
	uint64_t there = __atomic_load_n(&r->committed_bytes, __ATOMIC_RELAXED) / r->elem_bytes;
	return MT_MIN(used, there);
}

#endif
