/* SPDX-License-Identifier: MIT */
/* Growing the tables of struct mt_heap, and putting them in order. */

#include "heap/build.h"

#include "base/alloc.h"
#include "base/search.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { SEGMENT_BYTES_MAX = 256 << 20 };

int mt_heap_build_init(struct mt_heap_build *b, struct mt_image *im, struct mt_heap *h)
{
	*h = (struct mt_heap){0};
	*b = (struct mt_heap_build){
		.h = h,
		.im = im,
		.page_bytes = mt_image_facts(im)->page_bytes,
		.arch = mt_image_facts(im)->arch,
	};
	return mt_peek_init(&b->peek, im);
}

void mt_heap_build_done(struct mt_heap_build *b)
{
	if (b)
		mt_peek_done(&b->peek);
}

/* The place of the next element, or NULL; table: the address of the pointer to the first. */
static void *next_in(struct mt_heap_build *b, void *table, size_t *cap, size_t count,
		     size_t elem_bytes)
{
	void *now, *moved;

	memcpy(&now, table, sizeof(now));
	moved = mt_alloc_grow(now, cap, count + 1, elem_bytes);
	if (!moved) {
		b->failed = true;
		return NULL;
	}
	memcpy(table, &moved, sizeof(moved));
	return (char *)moved + count * elem_bytes;
}

void mt_heap_add_block(struct mt_heap_build *b, uint64_t address, uint64_t bytes)
{
	struct mt_heap *h = b->h;
	struct mt_heap_block *block =
		next_in(b, &h->blocks, &b->block_cap, h->block_count, sizeof(*block));

	if (!block)
		return;
	*block = (struct mt_heap_block){.address = address, .bytes = bytes};
	h->block_count++;
}

void mt_heap_add_range(struct mt_heap_build *b, uint64_t start, uint64_t end, uint32_t arena)
{
	struct mt_heap *h = b->h;
	struct mt_heap_range *range;

	if (start >= end)
		return;
	range = next_in(b, &h->ranges, &b->range_cap, h->range_count, sizeof(*range));
	if (!range)
		return;
	*range = (struct mt_heap_range){.start = start, .end = end, .arena = arena};
	h->range_count++;
}

uint32_t mt_heap_add_arena(struct mt_heap_build *b, uint64_t address)
{
	struct mt_heap *h = b->h;
	struct mt_heap_arena *arena =
		next_in(b, &h->arenas, &b->arena_cap, h->arena_count, sizeof(*arena));

	if (!arena)
		return 0;
	*arena = (struct mt_heap_arena){.address = address};
	return (uint32_t)h->arena_count++;
}

void mt_heap_add_damage(struct mt_heap_build *b, uint64_t address, const char *fmt, ...)
{
	struct mt_heap *h = b->h;
	struct mt_heap_damage *damage;
	va_list ap;

	h->damages_in_all++;
	if (h->damage_count == MT_HEAP_DAMAGES_MAX)
		return;
	damage = next_in(b, &h->damages, &b->damage_cap, h->damage_count, sizeof(*damage));
	if (!damage)
		return;
	damage->address = address;
	va_start(ap, fmt);
	vsnprintf(damage->text, sizeof(damage->text), fmt, ap);
	va_end(ap);
	h->damage_count++;
}

void mt_heap_add_live(struct mt_heap_build *b, uint32_t arena, uint64_t address, uint64_t bytes)
{
	mt_heap_add_block(b, address, bytes);
	if (b->failed || arena >= b->h->arena_count)
		return;
	b->h->arenas[arena].live_bytes += bytes;
	b->h->arenas[arena].live_blocks++;
}

static int by_block(const void *a, const void *b)
{
	const struct mt_heap_block *x = a, *y = b;

	return (x->address > y->address) - (x->address < y->address);
}

static int by_range(const void *a, const void *b)
{
	const struct mt_heap_range *x = a, *y = b;

	return (x->start > y->start) - (x->start < y->start);
}

/* Whether blocks are in order already: a walk finds most of them so. */
static bool is_sorted(const struct mt_heap *h)
{
	for (size_t i = 1; i < h->block_count; i++)
		if (h->blocks[i - 1].address > h->blocks[i].address)
			return false;
	return true;
}

static void drop_overlaps(struct mt_heap_build *b)
{
	struct mt_heap *h = b->h;
	size_t kept = 0;

	for (size_t i = 0; i < h->block_count; i++) {
		struct mt_heap_block *last = kept ? &h->blocks[kept - 1] : NULL;

		if (last && h->blocks[i].address - last->address < MT_MAX(last->bytes, 1u))
			mt_heap_add_damage(b, h->blocks[i].address,
					   "this block lies inside of another one");
		else
			h->blocks[kept++] = h->blocks[i];
	}
	h->block_count = kept;
	kept = 0;
	for (size_t i = 0; i < h->range_count; i++) {
		struct mt_heap_range r = h->ranges[i];

		if (kept && h->ranges[kept - 1].end > r.start)
			r.start = h->ranges[kept - 1].end;
		if (r.start < r.end)
			h->ranges[kept++] = r;
	}
	h->range_count = kept;
}

int mt_heap_build_finish(struct mt_heap_build *b)
{
	struct mt_heap *h = b->h;

	if (h->block_count && !is_sorted(h))
		qsort(h->blocks, h->block_count, sizeof(*h->blocks), by_block);
	mt_heap_sort_ranges(b);
	drop_overlaps(b);
	return b->failed ? -ENOMEM : 0;
}

uint8_t *mt_heap_segment_bytes(struct mt_image *im, const struct mt_image_segment *s,
			       size_t *ret_bytes)
{
	enum { STEP = 4096 };
	size_t bytes = (size_t)MT_MIN(s->end - s->start, (uint64_t)SEGMENT_BYTES_MAX);
	uint8_t *data = mt_alloc_zero(1, bytes);

	if (!data)
		return NULL;
	for (size_t at = 0; at < bytes;) {
		size_t got = mt_image_read(im, s->start + at, data + at, bytes - at);

		/* over the page that cannot be read */
		at += got;
		if (at < bytes)
			at = (size_t)(MT_ALIGN_DOWN(s->start + at, (uint64_t)STEP) + STEP -
				      s->start);
	}
	*ret_bytes = bytes;
	return data;
}

static int find_in(const uint8_t *data, size_t bytes, const char *what, char *text,
		   size_t text_bytes)
{
	const uint8_t *found = memmem(data, bytes, what, strlen(what));
	size_t at, len = 0;

	if (!found)
		return -ENOENT;
	at = (size_t)(found - data) + strlen(what);
	while (len < text_bytes - 1 && at + len < bytes && data[at + len])
		len++;
	memcpy(text, data + at, len);
	text[len] = 0;
	return 0;
}

int mt_heap_find_text(struct mt_image *im, const struct mt_image_module *m, const char *what,
		      char *text, size_t text_bytes)
{
	for (uint32_t i = 0; i < m->segment_count; i++) {
		mt_auto(free) uint8_t *data = NULL;
		size_t bytes;

		if (m->segments[i].flags & MT_MAPPING_WRITE)
			continue;
		data = mt_heap_segment_bytes(im, &m->segments[i], &bytes);
		if (!data)
			return -ENOMEM;
		if (!find_in(data, bytes, what, text, text_bytes))
			return 0;
	}
	return -ENOENT;
}

uint64_t mt_heap_run_end(const struct mt_heap_build *b, uint64_t address)
{
	const uint32_t both = MT_MAPPING_READ | MT_MAPPING_WRITE;
	const struct mt_mapping *m;

	while ((m = mt_image_mapping_of(b->im, address)) && m->end > address &&
	       (m->flags & both) == both)
		address = m->end;
	return address;
}

bool mt_heap_is_writable(const struct mt_heap_build *b, uint64_t address, uint64_t bytes)
{
	return address + bytes >= address && mt_heap_run_end(b, address) >= address + bytes;
}

void mt_heap_sort_ranges(struct mt_heap_build *b)
{
	if (b->h->range_count)
		qsort(b->h->ranges, b->h->range_count, sizeof(*b->h->ranges), by_range);
	b->sorted_ranges = b->h->range_count;
}

const struct mt_heap_range *mt_heap_range_of(const struct mt_heap_build *b, uint64_t address)
{
	size_t low = MT_SEARCH_UP_TO(b->h->ranges, b->sorted_ranges, end, address);

	return low < b->sorted_ranges && b->h->ranges[low].start <= address ? &b->h->ranges[low]
									    : NULL;
}
