/* SPDX-License-Identifier: MIT */
/*
 * Blocks with a mapping of their own. Nothing leads to them: they are found where a page begins
 * with what is a header then. Memory of other uses may begin so by chance: glibc's own count of
 * them and of their bytes says which of those that were found they are, and whether these are all.
 */

#include "heap/glibc.h"
#include "target/pagemap.h"

#include "base/alloc.h"

#include <inttypes.h>
#include <stdlib.h>

enum { CHANCES_MAX = 1000000 };

/* What may be a block: its mapping begins at start, its header lies at `at`. */
struct candidate {
	uint64_t start, at, size;
};

struct search {
	struct mt_glibc *g;
	struct mt_pagemap present;
	uint64_t page, bytes;    /* of all that were found */
	struct candidate *found; /* owned */
	size_t count, capacity;
	bool is_one_too_many; /* all, and found[extra], which is none */
	size_t extra;
};

static uint64_t whole_of(const struct candidate *c)
{
	return c->at + c->size - c->start;
}

/* With one more than there are: the only one whose bytes are too many is none. */
static bool find_extra(struct search *s)
{
	uint64_t more = s->bytes - s->g->params.mmapped_bytes;
	size_t matches = 0;

	for (size_t i = 0; i < s->count; i++)
		if (whole_of(&s->found[i]) == more) {
			matches++;
			s->extra = i;
		}
	s->is_one_too_many = matches == 1;
	return s->is_one_too_many;
}

static bool has_all(struct search *s)
{
	const struct glibc_params *p = &s->g->params;

	if (!p->is_known || s->count < p->mmaps)
		return false;
	if (s->count == p->mmaps)
		return s->bytes == p->mmapped_bytes;
	return s->count == p->mmaps + 1u ? find_extra(s) : s->count > p->mmaps + CHANCES_MAX;
}

/* Whether a header at `at` is that of a chunk whose mapping begins at `start` and may end at limit.
 */
static bool is_chunk(const struct search *s, const uint64_t header[2], uint64_t start, uint64_t at,
		     uint64_t limit)
{
	uint64_t size = glibc_size(header[1]), whole = size + header[0];

	return (header[1] & 15) == GLIBC_MAPPED && header[0] == at - start &&
	       size >= GLIBC_MIN_CHUNK && whole >= size && !(whole & (s->page - 1)) &&
	       whole <= limit - start;
}

static void note(struct search *s, uint64_t start, uint64_t at, uint64_t size)
{
	struct candidate *grown =
		mt_alloc_grow(s->found, &s->capacity, s->count + 1, sizeof(*grown));

	if (!grown) {
		s->g->b->failed = true;
		return;
	}
	s->found = grown;
	s->found[s->count++] = (struct candidate){start, at, size};
	s->bytes += at + size - start;
}

static void take(struct mt_glibc *g, const struct candidate *c)
{
	struct mt_heap_arena *a = &g->b->h->arenas[0];

	mt_heap_add_live(g->b, 0, c->at + GLIBC_HEADER, c->size - GLIBC_HEADER);
	mt_heap_add_range(g->b, c->start, c->at + c->size, 0);
	a->held_bytes += whole_of(c);
	a->mapped_bytes += c->size - GLIBC_HEADER;
	a->mapped_blocks++;
}

/*
 * An aligned block lies further behind, and the header at the start of its mapping is an old one.
 * Each alignment has one place. The end of the block, or 0.
 */
static uint64_t look_for_aligned(struct search *s, uint64_t start, uint64_t limit)
{
	for (uint64_t alignment = 32; alignment < limit - start; alignment *= 2) {
		uint64_t at = MT_ALIGN_UP(start + GLIBC_HEADER, alignment) - GLIBC_HEADER;
		uint64_t header[2];

		if (at - start < GLIBC_MIN_CHUNK)
			at += alignment;
		if (at >= limit || mt_image_read_all(s->g->b->im, at, header, sizeof(header)) ||
		    !is_chunk(s, header, start, at, limit))
			continue;
		note(s, start, at, glibc_size(header[1]));
		return at + glibc_size(header[1]);
	}
	return 0;
}

/* The block whose mapping begins at a page: the end of it, or 0. */
static uint64_t look_at(struct search *s, uint64_t page, uint64_t limit)
{
	uint64_t header[2], end;

	if (mt_image_read_all(s->g->b->im, page, header, sizeof(header)) || header[0] ||
	    (header[1] & (s->page - 1)) != GLIBC_MAPPED || header[1] < s->page)
		return 0;
	end = look_for_aligned(s, page, limit);
	if (end || !is_chunk(s, header, page, page, limit))
		return end;
	note(s, page, page, glibc_size(header[1]));
	return page + glibc_size(header[1]);
}

static void search(struct search *s, const struct mt_mapping *m)
{
	uint64_t at = mt_pagemap_next(&s->present, m->start, m->end);

	while (at < m->end && !has_all(s)) {
		const struct mt_heap_range *r = mt_heap_range_of(s->g->b, at);
		uint64_t end = r ? MT_ALIGN_UP(r->end, s->page) : look_at(s, at, m->end);

		at = mt_pagemap_next(&s->present, MT_MAX(end, at + s->page), m->end);
	}
}

static bool can_hold(const struct mt_mapping *m)
{
	return (m->flags & 11) == 3 && !m->inode && m->in_image &&
	       (m->name[0] != '[' || m->name[1] == 'a'); /* [anon:...] */
}

static void take_all(const struct search *s)
{
	const struct glibc_params *p = &s->g->params;

	size_t most = s->is_one_too_many ? s->count : MT_MIN(s->count, (size_t)p->mmaps);

	for (size_t i = 0; i < most; i++)
		if (!s->is_one_too_many || i != s->extra)
			take(s->g, &s->found[i]);
	if (!s->is_one_too_many && (s->count != p->mmaps || s->bytes != p->mmapped_bytes))
		mt_heap_add_damage(s->g->b, p->address,
				   "glibc counts %" PRIu32 " blocks with mappings of their own, "
				   "%" PRIu64 " bytes; %zu, %" PRIu64 " bytes, were found",
				   p->mmaps, p->mmapped_bytes, s->count, s->bytes);
}

void glibc_find_mapped(struct mt_glibc *g)
{
	struct search s = {.g = g, .page = g->b->page_bytes};
	const struct glibc_params *p = &g->params;
	size_t count;
	const struct mt_mapping *m = mt_image_mappings(g->b->im, &count);

	if (!p->is_known) {
		mt_heap_add_damage(g->b, g->main_arena,
				   "glibc's parameters were not found: blocks with mappings of "
				   "their own are not known");
		return;
	}
	mt_heap_sort_ranges(g->b);
	mt_pagemap_open_image(&s.present, g->b->im);
	for (size_t i = 0; i < count && !has_all(&s); i++)
		if (can_hold(&m[i]))
			search(&s, &m[i]);
	mt_pagemap_close(&s.present);
	take_all(&s);
	free(s.found);
}
