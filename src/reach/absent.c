/* SPDX-License-Identifier: MIT */
#include "reach/absent.h"

#include "core/cc.h"
#include "target/pagemap.h"

#include <errno.h>

enum {
	LARGE_BYTES = 32 << 20,
	HOLE_BYTES = 1 << 20, /* shorter ones are not worth it */
};
#define TOO_LARGE_BYTES ((uint64_t)64 << 30)

static int look_at(struct mt_pagemap *p, const struct mt_mapping *m, struct mt_ranges *absent)
{
	uint64_t at = m->start;

	while (at < m->end) {
		uint64_t start = mt_pagemap_next_absent(p, at, m->end);

		at = mt_pagemap_next(p, start, m->end);
		if (at - start >= HOLE_BYTES && mt_ranges_add(absent, start, at))
			return -ENOMEM;
	}
	return 0;
}

static bool is_own(const struct mt_ranges *own, const struct mt_mapping *m)
{
	int64_t at = mt_range_find(own->item, own->count, m->start);

	return at != MT_RANGE_NONE && own->item[at].end >= m->end;
}

int mt_absent_find(const struct mt_image *im, const struct mt_ranges *own,
		   struct mt_ranges *ret_absent, uint64_t *ret_left_out_bytes)
{
	size_t count;
	const struct mt_mapping *m = mt_image_mappings(im, &count), *end = m + count;
	mt_auto(mt_pagemap) struct mt_pagemap p;
	int code = 0;

	mt_pagemap_open_image(&p, im);
	for (; m < end && !code; m++) {
		if (m->inode || m->flags & MT_MAPPING_SHARED || !(m->flags & MT_MAPPING_READ) ||
		    m->end - m->start < LARGE_BYTES || is_own(own, m))
			continue;
		if (m->end - m->start > TOO_LARGE_BYTES) {
			*ret_left_out_bytes += m->end - m->start;
			code = mt_ranges_add(ret_absent, m->start, m->end);
		} else {
			code = look_at(&p, m, ret_absent);
		}
	}
	mt_ranges_tidy(ret_absent);
	return code;
}
