/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_HEAP_RANGES_H
#define MT_CLI_HEAP_RANGES_H

/* Which memory of a process its allocator has taken, for the sorting of mappings. */

#include "base/cleanup.h"
#include "target/vma_kind.h"

/* All zero: nothing is known, or glibc's, which the rules for mappings know themselves. */
struct mt_heap_ranges {
	struct mt_vma_range *range; /* owned; sorted, disjoint */
	size_t count;
	const char *allocator; /* "jemalloc" */
};

/*
 * What they are at this moment: the process is not stopped. Only those of libraries of their own,
 * and of the C library: looking for an allocator inside of every program would touch pages of it
 * that were not in memory. `s`: its mappings. 0 or -ENOMEM.
 */
int mt_heap_ranges_of_process(pid_t pid, const struct mt_smaps *s,
			      struct mt_heap_ranges *ret_ranges);
/* Of any image. 0 or -ENOMEM. */
int mt_heap_ranges_of(struct mt_image *im, struct mt_heap_ranges *ret_ranges);

/* The facts have them from now on, as long as `r` is there. */
void mt_heap_ranges_give(const struct mt_heap_ranges *r, struct mt_vma_facts *facts);

void mt_heap_ranges_done(struct mt_heap_ranges *r); /* NULL is fine */
MT_AUTO_DEFINE_INPLACE(mt_heap_ranges, struct mt_heap_ranges, mt_heap_ranges_done)

#endif
