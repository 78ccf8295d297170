/* SPDX-License-Identifier: MIT */
/* /proc/PID/pagemap has a word for each page; bits 62 and 63: it is swapped out, or in memory. */

#include "heap/present.h"

#include "base/alloc.h"
#include "base/file.h"
#include "core/cc.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>

void mt_present_open(struct mt_present *p, const struct mt_image_facts *facts)
{
	char path[64];

	*p = (struct mt_present){.fd = -1, .page_bytes = facts->page_bytes};
	if (facts->source == MT_IMAGE_CORE || facts->pid <= 0)
		return;
	p->entry = mt_alloc_zero(MT_PRESENT_PAGES, sizeof(*p->entry));
	if (!p->entry)
		return;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)facts->pid);
	p->fd = open(path, O_RDONLY | O_CLOEXEC);
}

void mt_present_close(struct mt_present *p)
{
	if (!p)
		return;
	if (p->fd >= 0)
		close(p->fd);
	free(p->entry);
}

/* Reads the words of the pages from `page` on. False: they cannot be known. */
static bool fill(struct mt_present *p, uint64_t page)
{
	ssize_t got = mt_file_pread(p->fd, p->entry, MT_PRESENT_PAGES * sizeof(*p->entry),
				    page * sizeof(*p->entry));

	p->first = page;
	p->count = got > 0 ? (uint64_t)got / sizeof(*p->entry) : 0;
	return p->count > 0;
}

uint64_t mt_present_next(struct mt_present *p, uint64_t address, uint64_t end)
{
	if (p->fd < 0)
		return address;
	for (; address < end; address += p->page_bytes) {
		uint64_t page = address / p->page_bytes;

		if (page - p->first >= p->count && !fill(p, page))
			return address;
		if (p->entry[page - p->first] >> 62)
			return address;
	}
	return end;
}
