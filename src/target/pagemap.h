/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_PAGEMAP_H
#define MT_TARGET_PAGEMAP_H

/*
 * Which pages of a process are in memory or swapped out: the others were never written, need not be
 * read, and reading them would make page tables for them. From /proc/PID/pagemap, by
 * ioctl(PAGEMAP_SCAN) where the kernel has it (6.7), else by a word for each page: the same answer.
 * One thread at a time.
 */

#include "base/cleanup.h"
#include "target/image.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum mt_pagemap_way {
	MT_PAGEMAP_BEST,
	MT_PAGEMAP_WORDS /* for tests: as on a kernel without the ioctl */
};

/* A stretch of pages that are there. */
struct mt_pagemap_stretch {
	uint64_t start, end;
};

struct mt_pagemap {
	int fd; /* -1: not known, all pages count as there */
	uint64_t page_bytes;
	bool has_scan;
	uint64_t known_start, known_end; /* what is known of, and which stretches are there in it */
	struct mt_pagemap_stretch *stretch; /* owned; sorted */
	size_t count;
	void *buffer; /* owned */
};

/*
 * page_bytes: of the process. Never fails: what cannot be known counts as there. pid 0 is allowed,
 * and knows nothing.
 */
void mt_pagemap_open(struct mt_pagemap *p, pid_t pid, uint64_t page_bytes, enum mt_pagemap_way way);
void mt_pagemap_close(struct mt_pagemap *p);
MT_AUTO_DEFINE_INPLACE(mt_pagemap, struct mt_pagemap, mt_pagemap_close)

/* Of an image's process; of a core file nothing is known. */
void mt_pagemap_open_image(struct mt_pagemap *p, const struct mt_image *im);

/* The first page that is there from `address` (the start of one) on, or `end` if none is before. */
uint64_t mt_pagemap_next(struct mt_pagemap *p, uint64_t address, uint64_t end);

/*
 * As it is at this moment, by a descriptor of /proc/PID/pagemap: whether the pages from this number
 * on are there. Of how many of them, from the first on, it is known.
 */
size_t mt_pagemap_now(int fd, uint64_t page, bool *ret_is_there, size_t pages);

/* The first page that is not there, or `end`. */
uint64_t mt_pagemap_next_absent(struct mt_pagemap *p, uint64_t address, uint64_t end);

#endif
