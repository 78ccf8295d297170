/* SPDX-License-Identifier: MIT */
/*
 * Where the chunks of an arena lie. The main arena begins at the first address that brk gave; where
 * somebody else moved the break, or the break could not grow, it goes on elsewhere, and that is
 * found by chunks that lead to its end.
 */

#include "heap/glibc.h"
#include "target/pagemap.h"

#include <inttypes.h>
#include <string.h>

static enum glibc_end walk_stretch(struct mt_glibc *g, uint32_t arena, uint64_t start,
				   uint64_t limit, uint64_t *ret_end)
{
	struct glibc_segment s = {.start = start, .limit = limit, .arena = arena};
	enum glibc_end end = glibc_walk(g, &s, ret_end);
	struct glibc_arena *a = &g->arenas[arena];

	if (!a->first_chunk)
		a->first_chunk = start;
	if (end == GLIBC_AT_LIMIT)
		mt_heap_add_damage(g->b, *ret_end,
				   "memory ends here, but the chunks before do not say so%s",
				   glibc_locked(a));
	return end;
}

/* ---- the main arena ---- */

static void add_stretch(struct mt_glibc *g, uint64_t start, uint64_t end)
{
	g->arenas[0].segment_bytes += end - start;
	g->b->h->arenas[0].held_bytes += end - start;
	mt_heap_add_range(g->b, start, end, 0);
}

static uint64_t first_of_main(const struct mt_glibc *g)
{
	const struct glibc_arena *a = &g->arenas[0];

	if (g->params.is_known && g->params.sbrk_base)
		return MT_ALIGN_UP(g->params.sbrk_base, (uint64_t)16);
	if (a->state.flags & GLIBC_NOT_CONTIGUOUS || !a->top_bytes)
		return 0;
	return MT_ALIGN_UP(a->state.top + a->top_bytes - a->state.system_bytes, (uint64_t)16);
}

/* Where chunks go on behind memory of somebody else, which lies between; 0: nowhere. */
static uint64_t behind_gap(struct mt_glibc *g, uint64_t from, uint64_t limit)
{
	struct glibc_segment s = {.start = from, .limit = limit, .arena = 0};
	uint64_t word;

	for (uint64_t at = from; at + GLIBC_MIN_CHUNK <= limit && g->tries; at += 16) {
		if (at == g->arenas[0].state.top)
			return at;
		if (!mt_peek_u64(&g->b->peek, at + 8, &word) && (word & 15) == GLIBC_PREV_IN_USE &&
		    glibc_size(word) >= GLIBC_MIN_CHUNK && glibc_leads_to_end(g, &s, at))
			return at;
	}
	return 0;
}

/* Stretches one behind the other in one run of mappings. Whether the arena's last chunk was met. */
static bool walk_run(struct mt_glibc *g, uint64_t start, uint64_t *gap_bytes)
{
	uint64_t limit = mt_heap_run_end(g->b, start), end;
	enum glibc_end how;

	while (start && start < limit) {
		uint64_t top = g->arenas[0].state.top;

		how = walk_stretch(g, 0, start, limit, &end);
		add_stretch(g, start, end);
		if (how != GLIBC_AT_FENCE)
			return how == GLIBC_AT_TOP;
		if (top < end || top >= limit)
			return false;
		start = behind_gap(g, end, limit);
		if (start)
			*gap_bytes += start - end;
	}
	return false;
}

/* Stretches that mmap gave begin with a page. */
static bool search_mapping(struct mt_glibc *g, const struct mt_mapping *m)
{
	const uint64_t page = g->b->page_bytes;
	const struct glibc_arena *a = &g->arenas[0];
	mt_auto(mt_pagemap) struct mt_pagemap present;
	bool has_top = false;

	mt_pagemap_open_image(&present, g->b->im);
	for (uint64_t at = m->start; at < m->end && g->tries;
	     at = mt_pagemap_next(&present, at + page, m->end)) {
		const struct mt_heap_range *r = mt_heap_range_of(g->b, at);
		struct glibc_segment s = {
			.start = at, .limit = mt_heap_run_end(g->b, at), .arena = 0};
		uint64_t words[2], end;

		if (r) {
			at = MT_ALIGN_DOWN(r->end - 1, page);
			continue;
		}
		if (mt_peek(&g->b->peek, at, words, sizeof(words)) ||
		    (at != a->state.top &&
		     (words[0] || (words[1] & 15) != GLIBC_PREV_IN_USE ||
		      glibc_size(words[1]) < GLIBC_MIN_CHUNK || !glibc_leads_to_end(g, &s, at))))
			continue;
		has_top |= walk_stretch(g, 0, at, s.limit, &end) == GLIBC_AT_TOP;
		add_stretch(g, at, end);
		if (end > at)
			at = MT_ALIGN_DOWN(end - 1, page);
		if (a->segment_bytes >= a->state.system_bytes)
			break;
	}
	return has_top;
}

static bool search_mappings(struct mt_glibc *g)
{
	size_t count;
	const struct mt_mapping *m = mt_image_mappings(g->b->im, &count);
	const struct glibc_arena *a = &g->arenas[0];
	bool has_top = false;

	mt_heap_sort_ranges(g->b);
	for (size_t i = 0; i < count && a->segment_bytes < a->state.system_bytes; i++)
		if ((m[i].flags & 11) == 3 && !m[i].inode && m[i].name[0] != '[')
			has_top |= search_mapping(g, &m[i]);
	return has_top;
}

void glibc_walk_main(struct mt_glibc *g)
{
	struct glibc_arena *a = &g->arenas[0];
	uint64_t start = first_of_main(g), gap_bytes = 0;
	bool has_top = false;

	if (!a->state.system_bytes && !a->top_bytes)
		return;
	if (start)
		has_top = walk_run(g, start, &gap_bytes);
	if (!has_top || a->state.flags & GLIBC_NOT_CONTIGUOUS)
		has_top |= search_mappings(g);
	if (has_top)
		g->b->h->arenas[0].top_bytes = a->top_bytes;
	else if (!a->is_broken)
		mt_heap_add_damage(g->b, a->state.top,
				   "no chunk leads to the last chunk of the main arena%s",
				   glibc_locked(a));
	if (a->segment_bytes != a->state.system_bytes &&
	    a->segment_bytes + gap_bytes != a->state.system_bytes && !a->is_broken)
		mt_heap_add_damage(g->b, a->address,
				   "the main arena counts %" PRIu64
				   " bytes from the system, %" PRIu64 " were found%s",
				   a->state.system_bytes, a->segment_bytes, glibc_locked(a));
}

/* ---- secondary arenas ---- */

static void walk_heap(struct mt_glibc *g, const struct glibc_heap *h)
{
	struct glibc_arena *a = &g->arenas[h->arena];
	struct mt_heap_arena *out = &g->b->h->arenas[h->arena];
	uint64_t limit = h->address + h->bytes, start = h->address + g->layout.heap_info_bytes;
	uint64_t end;

	if (start == a->address)
		start = MT_ALIGN_UP(start + sizeof(struct glibc_state), (uint64_t)16);
	mt_heap_add_range(g->b, h->address, limit, h->arena);
	a->segment_bytes += h->bytes;
	out->held_bytes += h->bytes;
	if (walk_stretch(g, h->arena, start, limit, &end) == GLIBC_AT_TOP)
		out->top_bytes = a->top_bytes;
}

void glibc_walk_heaps(struct mt_glibc *g)
{
	for (size_t i = 0; i < g->heap_count; i++)
		walk_heap(g, &g->heaps[i]);
	for (size_t i = 1; i < g->arena_count; i++) {
		const struct glibc_arena *a = &g->arenas[i];

		if (a->segment_bytes != a->state.system_bytes)
			mt_heap_add_damage(g->b, a->address,
					   "this arena counts %" PRIu64
					   " bytes from the system, %" PRIu64 " were found%s",
					   a->state.system_bytes, a->segment_bytes,
					   glibc_locked(a));
	}
}
