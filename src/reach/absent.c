/* SPDX-License-Identifier: MIT */
/*
 * Pages that a process does not have may still be there in memory that it shares; and to read one
 * of these that is not makes it, for good. So what the file has holes for is not read. Where the
 * file cannot be opened (that takes rights beside those of a tracer) only pages are that the
 * process has in use.
 */

#include "reach/absent.h"

#include "core/cc.h"
#include "reach/roots.h"
#include "target/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

enum {
	LARGE_BYTES = 32 << 20,
	HOLE_BYTES = 1 << 20, /* shorter ones are not worth it */
};
#define TOO_LARGE_BYTES ((uint64_t)64 << 30)

/* `least`: bytes of a hole that is worth it. */
static int look_at(struct mt_pagemap *p, const struct mt_mapping *m, uint64_t least,
		   struct mt_ranges *absent)
{
	uint64_t at = m->start;

	while (at < m->end) {
		uint64_t start = mt_pagemap_next_absent(p, at, m->end);

		at = mt_pagemap_next(p, start, m->end);
		if (at - start >= least && mt_ranges_add(absent, start, at))
			return -ENOMEM;
	}
	return 0;
}

/* The file behind a mapping, without the program's descriptors. -1: it cannot be opened. */
static int open_behind(const struct mt_image_facts *f, const struct mt_mapping *m)
{
	char path[96];

	/* the list of mappings is the copy's, if there is one */
	snprintf(path, sizeof(path), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64,
		 (int)(f->copy ? f->copy : f->pid), m->start, m->end);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

/* 0; 1: the file does not tell its holes; -ENOMEM. */
static int look_at_file(const struct mt_image_facts *f, const struct mt_mapping *m,
			struct mt_ranges *absent)
{
	mt_auto(close) int fd = open_behind(f, m);
	uint64_t end = m->offset + (m->end - m->start);

	if (fd < 0)
		return 1;
	for (uint64_t at = m->offset; at < end;) {
		off_t data = lseek(fd, (off_t)at, SEEK_DATA), hole;

		if (data < 0 && errno != ENXIO)
			return 1;
		if (data < 0 || (uint64_t)data > end)
			data = (off_t)end;
		if (mt_ranges_add(absent, m->start + (at - m->offset),
				  m->start + ((uint64_t)data - m->offset)))
			return -ENOMEM;
		hole = (uint64_t)data < end ? lseek(fd, data, SEEK_HOLE) : (off_t)end;
		if (hole <= data)
			break;
		at = (uint64_t)hole;
	}
	return 0;
}

static int look_at_shared(struct mt_pagemap *p, const struct mt_image_facts *f,
			  const struct mt_mapping *m, struct mt_ranges *absent)
{
	int code = look_at_file(f, m, absent);

	return code == 1 ? look_at(p, m, f->page_bytes, absent) : code;
}

static bool is_own(const struct mt_ranges *own, const struct mt_mapping *m)
{
	int64_t at = mt_range_find(own->item, own->count, m->start);

	return at != MT_RANGE_NONE && own->item[at].end >= m->end;
}

int mt_absent_find(const struct mt_image *im, const struct mt_ranges *own,
		   struct mt_ranges *ret_absent, uint64_t *ret_left_out_bytes)
{
	const struct mt_image_facts *f = mt_image_facts(im);
	size_t count;
	const struct mt_mapping *m = mt_image_mappings(im, &count), *end = m + count;
	mt_auto(mt_pagemap) struct mt_pagemap p;
	int code = 0;

	mt_pagemap_open_image(&p, im);
	for (; m < end && !code; m++) {
		bool is_shared = mt_roots_is_shared_memory(m);

		if (!is_shared &&
		    (m->inode || m->flags & MT_MAPPING_SHARED || m->end - m->start < LARGE_BYTES))
			continue;
		if (!(m->flags & MT_MAPPING_READ) || is_own(own, m))
			continue;
		if (m->end - m->start > TOO_LARGE_BYTES) {
			*ret_left_out_bytes += m->end - m->start;
			code = mt_ranges_add(ret_absent, m->start, m->end);
		} else {
			code = is_shared ? look_at_shared(&p, f, m, ret_absent)
					 : look_at(&p, m, HOLE_BYTES, ret_absent);
		}
	}
	mt_ranges_tidy(ret_absent);
	return code;
}
