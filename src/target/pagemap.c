/* SPDX-License-Identifier: MIT */
/*
 * Whatever the way, a window of addresses is known as a list of stretches that are there. The
 * kernel may say a stretch twice where its answer did not fit, and then says how far it came; what
 * lies before the place that was asked for is cut off.
 */

#include "target/pagemap.h"

#include "base/alloc.h"
#include "base/file.h"
#include "core/cc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { STRETCHES = 1024, WORDS = 8192 };
/* How far a scan looks ahead: its caller may not come further, and the process waits for its lock.
 */
#define SCAN_BYTES (1ull << 30)
#define WORD_THERE ((uint64_t)3 << 62) /* in memory, or swapped out */

/* As the kernel lays it out (Documentation/admin-guide/mm/pagemap.rst). */
struct scan_region {
	uint64_t start, end, categories;
};
struct scan_request {
	uint64_t size, flags, start, end, walk_end, vec, vec_len, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};
enum { SCAN_PRESENT = 1 << 3, SCAN_SWAPPED = 1 << 4 };
#define SCAN_CALL _IOWR('f', 16, struct scan_request)

_Static_assert(STRETCHES * sizeof(struct scan_region) <= WORDS * sizeof(uint64_t),
	       "one buffer is for both");

static void close_all(struct mt_pagemap *p)
{
	if (p->fd >= 0)
		close(p->fd);
	free(p->stretch);
	free(p->buffer);
	p->fd = -1;
	p->stretch = NULL;
	p->buffer = NULL;
}

void mt_pagemap_open(struct mt_pagemap *p, pid_t pid, uint64_t page_bytes, enum mt_pagemap_way way)
{
	char path[64];

	*p = (struct mt_pagemap){
		.fd = -1, .page_bytes = page_bytes, .has_scan = way == MT_PAGEMAP_BEST};
	if (pid <= 0)
		return;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	p->fd = open(path, O_RDONLY | O_CLOEXEC);
	p->stretch = mt_alloc_zero(WORDS, sizeof(*p->stretch));
	p->buffer = mt_alloc_zero(WORDS, sizeof(uint64_t));
	if (!p->stretch || !p->buffer)
		close_all(p);
}

void mt_pagemap_open_image(struct mt_pagemap *p, const struct mt_image *im)
{
	const struct mt_image_facts *f = mt_image_facts(im);

	mt_pagemap_open(p, f->source == MT_IMAGE_CORE ? 0 : f->pid, f->page_bytes, MT_PAGEMAP_BEST);
}

void mt_pagemap_close(struct mt_pagemap *p)
{
	if (p)
		close_all(p);
}

/* ---- filling the window ---- */

/* Stretches come in order; those that touch are one. */
static void add(struct mt_pagemap *p, uint64_t start, uint64_t end)
{
	struct mt_pagemap_stretch *last = p->count ? &p->stretch[p->count - 1] : NULL;

	start = MT_MAX(start, last ? last->end : p->known_start);
	if (start >= end)
		return;
	if (last && last->end == start)
		last->end = end;
	else
		p->stretch[p->count++] = (struct mt_pagemap_stretch){start, end};
}

/* False: this kernel has no such call, or it is not for these addresses. */
static bool scan(struct mt_pagemap *p, uint64_t address, uint64_t end)
{
	const struct scan_region *region = p->buffer;
	struct scan_request r = {
		.size = sizeof(r),
		.start = address,
		.end = address + MT_MIN(end - address, SCAN_BYTES),
		.vec = (uintptr_t)p->buffer,
		.vec_len = STRETCHES,
		.category_anyof_mask = SCAN_PRESENT | SCAN_SWAPPED,
		.return_mask = SCAN_PRESENT | SCAN_SWAPPED,
	};
	int n;

	do
		n = ioctl(p->fd, SCAN_CALL, &r);
	while (n < 0 && errno == EINTR);
	if (n < 0 || n > STRETCHES)
		return false;
	p->known_start = address;
	p->count = 0;
	for (int i = 0; i < n; i++)
		add(p, region[i].start, region[i].end);
	p->known_end = MT_MAX(r.walk_end, p->count ? p->stretch[p->count - 1].end : 0);
	return p->known_end > address;
}

/* False: they cannot be known. */
static bool read_words(struct mt_pagemap *p, uint64_t address)
{
	const uint64_t *word = p->buffer;
	ssize_t got = mt_file_pread(p->fd, p->buffer, WORDS * sizeof(*word),
				    address / p->page_bytes * sizeof(*word));
	uint64_t words = got > 0 ? (uint64_t)got / sizeof(*word) : 0;

	p->known_start = address;
	p->known_end = address + words * p->page_bytes;
	p->count = 0;
	for (uint64_t i = 0; i < words; i++)
		if (word[i] & WORD_THERE)
			add(p, address + i * p->page_bytes, address + (i + 1) * p->page_bytes);
	return words > 0;
}

/* Sees to it that the window holds an address. False: nothing can be known of it. */
static bool look(struct mt_pagemap *p, uint64_t address, uint64_t end)
{
	if (address >= p->known_start && address < p->known_end)
		return true;
	if (p->fd < 0)
		return false;
	p->has_scan = p->has_scan && scan(p, address, end);
	return p->has_scan || read_words(p, address);
}

/* The index of the first stretch that ends behind an address. */
static size_t find(const struct mt_pagemap *p, uint64_t address)
{
	size_t low = 0, high = p->count;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (p->stretch[middle].end <= address)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

/* ---- asking ---- */

uint64_t mt_pagemap_next(struct mt_pagemap *p, uint64_t address, uint64_t end)
{
	while (address < end) {
		size_t at;

		if (!look(p, address, end))
			return address;
		at = find(p, address);
		if (at < p->count)
			return MT_MIN(MT_MAX(address, p->stretch[at].start), end);
		address = p->known_end;
	}
	return end;
}

uint64_t mt_pagemap_next_absent(struct mt_pagemap *p, uint64_t address, uint64_t end)
{
	while (address < end) {
		size_t at;

		if (!look(p, address, end))
			return end;
		at = find(p, address);
		if (at == p->count || p->stretch[at].start > address)
			return address;
		address = p->stretch[at].end;
	}
	return end;
}

size_t mt_pagemap_now(int fd, uint64_t page, bool *ret_is_there, size_t pages)
{
	uint64_t word[512];
	ssize_t got = mt_file_pread(fd, word, MT_MIN(pages * sizeof(*word), sizeof(word)),
				    page * sizeof(*word));
	size_t words = got > 0 ? (size_t)got / sizeof(*word) : 0;

	for (size_t i = 0; i < words; i++)
		ret_is_there[i] = (word[i] & WORD_THERE) != 0;
	return words;
}
