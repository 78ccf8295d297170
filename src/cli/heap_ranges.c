/* SPDX-License-Identifier: MIT */
#include "cli/heap_ranges.h"

#include "base/alloc.h"
#include "heap/heap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int mt_heap_ranges_of(struct mt_image *im, struct mt_heap_ranges *ret_ranges)
{
	mt_auto(mt_heap) struct mt_heap h = {0};
	struct mt_heap_ranges r = {0};
	struct mt_err refused = {0};
	int code = mt_heap_read_ranges(im, &h, &refused);

	*ret_ranges = r;
	if (code || !h.range_count)
		return code == -ENOMEM ? code : 0;
	r.range = mt_alloc_zero(h.range_count, sizeof(*r.range));
	if (!r.range)
		return -ENOMEM;
	for (size_t i = 0; i < h.range_count; i++)
		r.range[i] = (struct mt_vma_range){h.ranges[i].start, h.ranges[i].end};
	r.count = h.range_count;
	r.allocator = h.allocator;
	*ret_ranges = r;
	return 0;
}

/* Whether the mappings have an allocator that is a library, or no glibc. */
static bool is_candidate(const struct mt_smaps *s)
{
	bool has_glibc = false;

	for (size_t i = 0; i < s->count; i++) {
		const char *name = s->mapping[i].m.name;

		if (*name != '/')
			continue;
		if (strstr(name, "/libjemalloc") || strstr(name, "/libmimalloc") ||
		    strstr(name, "/ld-musl"))
			return true;
		has_glibc |= strstr(name, "/libc.so.6") != NULL;
	}
	return !has_glibc;
}

int mt_heap_ranges_of_process(pid_t pid, const struct mt_smaps *s,
			      struct mt_heap_ranges *ret_ranges)
{
	struct mt_image *im;
	int code;

	*ret_ranges = (struct mt_heap_ranges){0};
	if (!is_candidate(s))
		return 0;
	code = mt_image_open_process(pid, MT_IMAGE_LIVE, &im, NULL);
	if (code)
		return code == -ENOMEM ? code : 0;
	code = mt_heap_ranges_of(im, ret_ranges);
	mt_image_close(im);
	return code;
}

void mt_heap_ranges_give(const struct mt_heap_ranges *r, struct mt_vma_facts *facts)
{
	facts->heap = r->range;
	facts->heaps = r->count;
	facts->heap_what = r->allocator;
}

void mt_heap_ranges_done(struct mt_heap_ranges *r)
{
	if (!r)
		return;
	free(r->range);
	*r = (struct mt_heap_ranges){0};
}
