/* SPDX-License-Identifier: MIT */
/*
 * Free chunks, as the lists of an arena have them. Each is a point that is known to be a chunk; a
 * list that breaks is damage, and what was read of it before counts.
 */

#include "heap/glibc.h"

#include "base/alloc.h"
#include "base/search.h"

#include <inttypes.h>
#include <stdlib.h>

const char *glibc_locked(const struct glibc_arena *a)
{
	return a->is_locked ? " (a thread was at work in this arena)" : "";
}

/* false: it is on a list already, or there is no memory. */
static bool add_point(struct mt_glibc *g, uint64_t at, uint32_t arena, enum glibc_free kind)
{
	bool is_new;
	struct glibc_point *grown;
	uint64_t *place = mt_map_at(&g->point_of, at, &is_new);

	if (!place) {
		g->b->failed = true;
		return false;
	}
	if (!is_new)
		return false;
	grown = mt_alloc_grow(g->points, &g->point_cap, g->point_count + 1, sizeof(*grown));
	if (!grown) {
		g->b->failed = true;
		return false;
	}
	g->points = grown;
	g->points[g->point_count++] = (struct glibc_point){.at = at, .arena = arena, .kind = kind};
	*place = g->point_count;
	return true;
}

/* Size word of what should be a chunk of at least 32 bytes; 0: it is none. */
static uint64_t size_word(struct mt_glibc *g, uint64_t at)
{
	uint64_t word;

	if (at & 15 || mt_peek_u64(&g->b->peek, at + 8, &word) || word & 8 ||
	    glibc_size(word) < GLIBC_MIN_CHUNK || word & GLIBC_MAPPED)
		return 0;
	return word;
}

static void read_fast(struct mt_glibc *g, uint32_t arena, unsigned bin)
{
	const struct glibc_arena *a = &g->arenas[arena];
	uint64_t place = a->address + offsetof(struct glibc_state, fast) + 8 * bin;
	uint64_t at = a->state.fast[bin], link;

	while (at) {
		uint64_t word = size_word(g, at);

		if (!word || glibc_size(word) != GLIBC_MIN_CHUNK + 16 * bin) {
			mt_heap_add_damage(g->b, place,
					   "the list of free chunks of %u bytes leads to 0x%" PRIx64
					   ", which is none%s",
					   GLIBC_MIN_CHUNK + 16 * bin, at, glibc_locked(a));
			return;
		}
		if (!add_point(g, at, arena, GLIBC_IN_FAST)) {
			mt_heap_add_damage(g->b, at,
					   "this chunk is on two lists, or twice on one%s",
					   glibc_locked(a));
			return;
		}
		place = at + GLIBC_HEADER;
		if (mt_peek_u64(&g->b->peek, place, &link))
			return;
		at = glibc_link(g, place, link);
	}
}

/* What is wrong with a chunk of a bin whose list came from `before`; NULL: nothing. */
static const char *wrong_in_bin(struct mt_glibc *g, uint64_t at, uint64_t before)
{
	uint64_t word = size_word(g, at), back, behind[2];

	if (!word)
		return "has no valid size";
	if (mt_peek_u64(&g->b->peek, at + 24, &back) || back != before)
		return "does not link back";
	if (mt_peek(&g->b->peek, at + glibc_size(word), behind, sizeof(behind)) ||
	    behind[0] != glibc_size(word))
		return "has another size at its end";
	if (behind[1] & GLIBC_PREV_IN_USE)
		return "is in use by what follows it";
	return NULL;
}

/* A ring through its head in the arena, forwards. */
static void read_bin(struct mt_glibc *g, uint32_t arena, unsigned bin)
{
	const struct glibc_arena *a = &g->arenas[arena];
	uint64_t head = a->address + offsetof(struct glibc_state, bins) - GLIBC_HEADER +
			(uint64_t)GLIBC_HEADER * bin;
	uint64_t before = head, at = a->state.bins[2 * bin];

	if (!at && !a->state.top)
		return; /* an arena that was never used */
	while (at != head) {
		const char *wrong = wrong_in_bin(g, at, before);

		if (wrong) {
			mt_heap_add_damage(g->b, at, "this chunk of free list %u %s%s", bin + 1,
					   wrong, glibc_locked(a));
			return;
		}
		if (!add_point(g, at, arena, GLIBC_IN_BIN)) {
			mt_heap_add_damage(g->b, at,
					   "this chunk is on two lists, or twice on one%s",
					   glibc_locked(a));
			return;
		}
		before = at;
		if (mt_peek_u64(&g->b->peek, at + GLIBC_HEADER, &at))
			return;
	}
}

void glibc_read_lists(struct mt_glibc *g, uint32_t arena)
{
	for (unsigned i = 0; i < GLIBC_FASTBINS; i++)
		read_fast(g, arena, i);
	for (unsigned i = 0; i < GLIBC_BINS; i++)
		read_bin(g, arena, i);
}

static int by_address(const void *a, const void *b)
{
	const struct glibc_point *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

void glibc_sort_points(struct mt_glibc *g)
{
	if (g->point_count)
		qsort(g->points, g->point_count, sizeof(*g->points), by_address);
	for (size_t i = 0; i < g->point_count; i++)
		if (mt_map_set(&g->point_of, g->points[i].at, i + 1))
			g->b->failed = true;
}

struct glibc_point *glibc_point_at(struct mt_glibc *g, uint64_t at)
{
	uint64_t place;

	return mt_map_get(&g->point_of, at, &place) && place ? &g->points[place - 1] : NULL;
}

const struct glibc_point *glibc_point_after(const struct mt_glibc *g, uint64_t from, uint64_t end,
					    uint32_t arena)
{
	size_t low = MT_SEARCH_BELOW(g->points, g->point_count, at, from);

	for (; low < g->point_count && g->points[low].at < end; low++)
		if (g->points[low].arena == arena)
			return &g->points[low];
	return NULL;
}
