/* SPDX-License-Identifier: MIT */
/* Live blocks in order of address, page by page: what lies on the page of now is in `part`. */

#include "heap/pinned.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/search.h"

#include <errno.h>
#include <stdlib.h>

/* What a block has on a page. */
struct part {
	uint64_t owner, bytes;
	size_t block; /* its index */
};

struct sweep {
	const struct mt_heap *h;
	struct mt_heap_pinned *result;
	uint64_t page_bytes, page; /* the number of the page of now */
	struct part *part;
	size_t parts, part_cap, pinner_cap;
	size_t counted;         /* blocks up to here are counted, if they are to be */
	struct mt_map index_of; /* owner -> index in pinners + 1 */
	uint64_t *last_page;    /* of each pinner: the last page that counted for it */
	size_t last_cap;
};

/* The index of an owner's pinner, or -ENOMEM. */
static int64_t pinner_of(struct sweep *s, uint64_t owner)
{
	struct mt_heap_pinned *r = s->result;
	uint64_t *at = mt_map_at(&s->index_of, owner, NULL), *last;
	struct mt_heap_pinner *grown;

	if (!at)
		return -ENOMEM;
	if (*at)
		return (int64_t)*at - 1;
	grown = mt_alloc_grow(r->pinners, &s->pinner_cap, r->pinner_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	r->pinners = grown;
	last = mt_alloc_grow(s->last_page, &s->last_cap, r->pinner_count + 1, sizeof(*last));
	if (!last)
		return -ENOMEM;
	s->last_page = last;
	s->last_page[r->pinner_count] = UINT64_MAX;
	r->pinners[r->pinner_count] = (struct mt_heap_pinner){.owner = owner};
	*at = ++r->pinner_count;
	return (int64_t)*at - 1;
}

/* Whether all of the page of now is the allocator's. */
static bool is_of_heap(const struct sweep *s)
{
	const struct mt_heap *h = s->h;
	uint64_t start = s->page * s->page_bytes;
	size_t i = MT_SEARCH_UP_TO(h->ranges, h->range_count, end, start);

	return i < h->range_count && h->ranges[i].start <= start &&
	       h->ranges[i].end - start >= s->page_bytes;
}

static int count_page(struct sweep *s)
{
	bool is_alone = true;

	s->result->page_bytes += s->page_bytes;
	for (size_t i = 1; i < s->parts; i++)
		is_alone = is_alone && s->part[i].owner == s->part[0].owner;
	for (size_t i = 0; i < s->parts; i++) {
		int64_t index = pinner_of(s, s->part[i].owner);
		struct mt_heap_pinner *p;

		if (index < 0)
			return -ENOMEM;
		p = &s->result->pinners[index];
		s->result->live_bytes += s->part[i].bytes;
		p->live_bytes += s->part[i].bytes;
		p->live_blocks += s->part[i].block >= s->counted;
		s->counted = MT_MAX(s->counted, s->part[i].block + 1);
		if (s->last_page[index] == s->page)
			continue;
		s->last_page[index] = s->page;
		p->page_bytes += s->page_bytes;
		p->alone_bytes += is_alone ? s->page_bytes : 0;
	}
	return 0;
}

/* The page of now is done. 0 or -ENOMEM. */
static int end_page(struct sweep *s)
{
	uint64_t live = 0;
	int code = 0;

	for (size_t i = 0; i < s->parts; i++)
		live += s->part[i].bytes;
	if (s->parts && live <= s->page_bytes / 2 && is_of_heap(s))
		code = count_page(s);
	s->parts = 0;
	return code;
}

/* A block has bytes on a page, which is the one of now or a later one. */
static int add_part(struct sweep *s, uint64_t page, const struct part *part)
{
	struct part *grown;

	if (page != s->page && end_page(s))
		return -ENOMEM;
	s->page = page;
	grown = mt_alloc_grow(s->part, &s->part_cap, s->parts + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	s->part = grown;
	s->part[s->parts++] = *part;
	return 0;
}

/* Pages between its first and its last one are live as a whole. */
static int add_block(struct sweep *s, size_t block, uint64_t owner)
{
	const struct mt_heap_block *b = &s->h->blocks[block];
	struct part part = {.owner = owner, .block = block};
	uint64_t end = b->address + MT_MAX(b->bytes, 1u);
	uint64_t first = b->address / s->page_bytes, last = (end - 1) / s->page_bytes;
	int code;

	part.bytes = MT_MIN(end, (first + 1) * s->page_bytes) - b->address;
	code = add_part(s, first, &part);
	part.bytes = end - last * s->page_bytes;
	if (!code && last != first)
		code = add_part(s, last, &part);
	return code;
}

static int by_pages(const void *a, const void *b)
{
	const struct mt_heap_pinner *x = a, *y = b;

	if (x->page_bytes != y->page_bytes)
		return x->page_bytes > y->page_bytes ? -1 : 1;
	if (x->alone_bytes != y->alone_bytes)
		return x->alone_bytes > y->alone_bytes ? -1 : 1;
	return (x->owner > y->owner) - (x->owner < y->owner);
}

static int sweep_all(struct sweep *s, const struct mt_heap_owner *owners, size_t owner_count)
{
	const struct mt_heap *h = s->h;

	for (size_t i = 0, k = 0; i < h->block_count; i++) {
		const struct mt_heap_block *b = &h->blocks[i];
		uint64_t owner = 0;

		while (k < owner_count && owners[k].address < b->address)
			k++;
		if (k < owner_count && owners[k].address - b->address < MT_MAX(b->bytes, 1u))
			owner = owners[k].owner;
		if (add_block(s, i, owner))
			return -ENOMEM;
	}
	return end_page(s);
}

int mt_heap_pinned_find(const struct mt_heap *h, uint64_t page_bytes,
			const struct mt_heap_owner *owners, size_t owner_count,
			struct mt_heap_pinned *ret_pinned)
{
	struct mt_heap_pinned result = {0};
	struct sweep s = {.h = h, .result = &result, .page_bytes = page_bytes, .page = UINT64_MAX};
	int code = sweep_all(&s, owners, owner_count);

	if (result.pinner_count)
		qsort(result.pinners, result.pinner_count, sizeof(*result.pinners), by_pages);
	free(s.part);
	free(s.last_page);
	mt_map_done(&s.index_of);
	if (code)
		mt_heap_pinned_done(&result);
	else
		*ret_pinned = result;
	return code;
}

void mt_heap_pinned_done(struct mt_heap_pinned *p)
{
	if (!p)
		return;
	free(p->pinners);
	*p = (struct mt_heap_pinned){0};
}
