/* SPDX-License-Identifier: MIT */
/* From /proc/PID/pagemap, 8 bytes a page: a page that is neither present nor swapped out is not
 * there. */

#include "reach/absent.h"

#include "base/alloc.h"
#include "base/file.h"
#include "core/cc.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>

enum {
	PAGE_BYTES = 4096,
	ENTRY_BYTES = 8,
	PAGES_AT_ONCE = 16384,
	LARGE_BYTES = 32 << 20,
	HOLE_BYTES = 1 << 20, /* shorter ones are not worth it */
};
#define TOO_LARGE_BYTES ((uint64_t)64 << 30)
#define IS_THERE ((uint64_t)3 << 62) /* present or swapped */

struct looker {
	int fd;
	uint64_t *entry;
	struct mt_ranges *absent;
	uint64_t hole; /* where the present one began, 0: none */
};

static int end_hole(struct looker *l, uint64_t at)
{
	uint64_t start = l->hole;

	l->hole = 0;
	return start && at - start >= HOLE_BYTES ? mt_ranges_add(l->absent, start, at) : 0;
}

static int look_at(struct looker *l, const struct mt_mapping *m)
{
	uint64_t at = m->start;

	while (at < m->end) {
		size_t pages = (size_t)MT_MIN((m->end - at) / PAGE_BYTES, (uint64_t)PAGES_AT_ONCE);
		ssize_t got = mt_file_pread(l->fd, l->entry, pages * ENTRY_BYTES,
					    at / PAGE_BYTES * ENTRY_BYTES);

		if (got < ENTRY_BYTES)
			break;
		for (ssize_t i = 0; i < got / ENTRY_BYTES; i++, at += PAGE_BYTES) {
			if (!(l->entry[i] & IS_THERE))
				l->hole = l->hole ? l->hole : at;
			else if (end_hole(l, at))
				return -ENOMEM;
		}
	}
	return end_hole(l, at);
}

static bool is_own(const struct mt_ranges *own, const struct mt_mapping *m)
{
	int64_t at = mt_range_find(own->item, own->count, m->start);

	return at != MT_RANGE_NONE && own->item[at].end >= m->end;
}

int mt_absent_find(pid_t pid, const struct mt_mapping *mapping, size_t count,
		   const struct mt_ranges *own, struct mt_ranges *ret_absent,
		   uint64_t *ret_left_out_bytes)
{
	mt_auto(free) uint64_t *entry = mt_alloc_zero(PAGES_AT_ONCE, ENTRY_BYTES);
	mt_auto(close) int fd = -1;
	struct looker l = {.entry = entry, .absent = ret_absent};
	char path[64];
	int code = 0;

	if (!entry)
		return -ENOMEM;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	l.fd = fd = open(path, O_RDONLY | O_CLOEXEC);
	for (size_t i = 0; i < count && !code; i++) {
		const struct mt_mapping *m = &mapping[i];

		if (m->inode || m->flags & MT_MAPPING_SHARED || !(m->flags & MT_MAPPING_READ) ||
		    m->end - m->start < LARGE_BYTES || is_own(own, m))
			continue;
		if (m->end - m->start > TOO_LARGE_BYTES) {
			*ret_left_out_bytes += m->end - m->start;
			code = mt_ranges_add(ret_absent, m->start, m->end);
		} else if (fd >= 0) {
			code = look_at(&l, m);
		}
	}
	mt_ranges_tidy(ret_absent);
	return code;
}
