/* SPDX-License-Identifier: MIT */
/*
 * From chunk to chunk. A chunk's size leads to the next one, whose header says whether the first is
 * in use; both must agree with the lists. Behind damage the walk goes on where chunks lead to a
 * point that is known, and nowhere else.
 */

#include "heap/glibc.h"

#include "base/alloc.h"

#include <inttypes.h>

enum { DAMAGES_MAX = 1000, LINKS_MIN = 4, LOOK_BYTES = 1 << 20 };

enum step { STEP_CHUNK, STEP_TOP, STEP_FENCE, STEP_LIMIT, STEP_NONE };

struct chunk {
	uint64_t at, word, size;
	bool is_free; /* by the header behind it */
};

/* The mark behind the last chunk: two headers, without memory of their own. */
static bool is_fence(struct mt_glibc *g, bool is_main, uint64_t at, uint64_t word,
		     uint64_t *ret_end)
{
	uint64_t second;

	if (!is_main && word == GLIBC_PREV_IN_USE) {
		*ret_end = at + GLIBC_FENCE;
		return true;
	}
	if ((word & ~(uint64_t)GLIBC_PREV_IN_USE) != GLIBC_FENCE ||
	    mt_peek_u64(&g->b->peek, at + 24, &second))
		return false;
	*ret_end = at + 2 * GLIBC_FENCE;
	return second == (is_main ? GLIBC_FENCE | GLIBC_PREV_IN_USE : GLIBC_PREV_IN_USE);
}

/* What lies at an address that should be a chunk's. */
static enum step look_at(struct mt_glibc *g, const struct glibc_segment *s, uint64_t at,
			 struct chunk *c, uint64_t *ret_end)
{
	const struct glibc_arena *a = &g->arenas[s->arena];
	uint64_t behind[2];

	*c = (struct chunk){.at = at};
	*ret_end = at;
	if (at == a->state.top) {
		*ret_end = at + a->top_bytes;
		return STEP_TOP;
	}
	if (at + GLIBC_HEADER > s->limit)
		return STEP_LIMIT;
	if (mt_peek_u64(&g->b->peek, at + 8, &c->word))
		return STEP_NONE;
	if (is_fence(g, a->is_main, at, c->word, ret_end))
		return STEP_FENCE;
	c->size = glibc_size(c->word);
	if (c->size < GLIBC_MIN_CHUNK || c->size & 15 || c->word & GLIBC_MAPPED ||
	    c->size > s->limit - at || mt_peek(&g->b->peek, at + c->size, behind, sizeof(behind)))
		return STEP_NONE;
	c->is_free = !(behind[1] & GLIBC_PREV_IN_USE);
	*ret_end = at + c->size;
	if (c->is_free)
		return behind[0] == c->size ? STEP_CHUNK : STEP_NONE;
	return !(c->word & GLIBC_NOT_MAIN) == a->is_main ? STEP_CHUNK : STEP_NONE;
}

bool glibc_leads_to_end(struct mt_glibc *g, const struct glibc_segment *s, uint64_t at)
{
	struct chunk c;
	uint64_t next;

	for (; g->tries; at = next) {
		g->tries--;
		switch (look_at(g, s, at, &c, &next)) {
		case STEP_CHUNK:
			continue;
		case STEP_TOP:
		case STEP_FENCE:
			return true;
		default:
			return false;
		}
	}
	return false;
}

/* Whether at least LINKS_MIN chunks lead from `at` to the point at `to`. */
static bool leads_to(struct mt_glibc *g, const struct glibc_segment *s, uint64_t at, uint64_t to)
{
	struct chunk c;
	uint64_t next;

	for (unsigned links = 0; at < to && g->tries; links++) {
		g->tries--;
		if (look_at(g, s, at, &c, &next) != STEP_CHUNK)
			return false;
		at = next;
		if (at == to)
			return links >= LINKS_MIN;
	}
	return false;
}

/* The next chunk that is known, from `from` on; 0: there is none. */
static uint64_t next_known(const struct mt_glibc *g, const struct glibc_segment *s, uint64_t from)
{
	const struct glibc_point *p = glibc_point_after(g, from, s->limit, s->arena);
	uint64_t top = g->arenas[s->arena].state.top;

	if (p)
		return p->at;
	return top >= from && top < s->limit ? top : 0;
}

/* Where the walk can go on behind damage; 0: nowhere. */
static uint64_t next_proven(struct mt_glibc *g, const struct glibc_segment *s, uint64_t from)
{
	uint64_t to = next_known(g, s, from);
	uint64_t stop = MT_MIN(to ? to : s->limit, from + LOOK_BYTES);

	for (uint64_t at = from; at < stop && g->tries; at += 16)
		if (to ? leads_to(g, s, at, to) : glibc_leads_to_end(g, s, at))
			return at;
	return to;
}

static void add_used(struct mt_glibc *g, const struct chunk *c, uint32_t arena, uint32_t state)
{
	struct glibc_used *grown =
		mt_alloc_grow(g->used, &g->used_cap, g->used_count + 1, sizeof(*grown));

	if (!grown) {
		g->b->failed = true;
		return;
	}
	g->used = grown;
	g->used[g->used_count++] =
		(struct glibc_used){.at = c->at, .size = c->size, .arena = arena, .state = state};
}

/* Whole pages inside of a free chunk, beside the words that make it one. */
static uint64_t whole_pages(const struct chunk *c, uint64_t page)
{
	uint64_t from = MT_ALIGN_UP(c->at + 48, page), to = MT_ALIGN_DOWN(c->at + c->size, page);

	return to > from ? to - from : 0;
}

static void count_free(struct mt_glibc *g, const struct chunk *c, uint32_t arena)
{
	struct mt_heap_arena *h = &g->b->h->arenas[arena];

	h->free_blocks++;
	h->free_bytes += c->size - 8;
	h->free_page_bytes += whole_pages(c, g->b->page_bytes);
}

static void take_chunk(struct mt_glibc *g, const struct chunk *c, uint32_t arena)
{
	const struct glibc_arena *a = &g->arenas[arena];
	struct glibc_point *p = glibc_point_at(g, c->at);

	if (p && p->arena == arena)
		p->is_seen = true;
	else if (p)
		mt_heap_add_damage(g->b, c->at, "this chunk is on a list of another arena%s",
				   glibc_locked(a));
	if (c->is_free && (!p || p->kind != GLIBC_IN_BIN))
		mt_heap_add_damage(g->b, c->at,
				   "this chunk of %" PRIu64 " bytes is free by what follows it, "
				   "but on no list of free ones%s",
				   c->size, glibc_locked(a));
	if (!c->is_free && p && p->kind == GLIBC_IN_BIN)
		mt_heap_add_damage(g->b, c->at,
				   "this chunk of %" PRIu64 " bytes is on a list of free ones, "
				   "but in use by what follows it%s",
				   c->size, glibc_locked(a));
	if (c->is_free || (p && p->kind == GLIBC_IN_BIN))
		count_free(g, c, arena);
	else
		add_used(g, c, arena, p ? p->kind : GLIBC_IN_USE);
}

static void tell_broken(struct mt_glibc *g, uint32_t arena, uint64_t at, uint64_t before)
{
	const struct glibc_arena *a = &g->arenas[arena];
	uint64_t word = 0;

	g->arenas[arena].is_broken = true;
	(void)!mt_peek_u64(&g->b->peek, at + 8, &word);
	if (before)
		mt_heap_add_damage(g->b, at,
				   "no chunk can have the size word 0x%" PRIx64
				   "; the one before it is at 0x%" PRIx64 "%s",
				   word, before, glibc_locked(a));
	else
		mt_heap_add_damage(g->b, at, "no chunk can have the size word 0x%" PRIx64 "%s",
				   word, glibc_locked(a));
}

/*
 * A chunk that reaches over one that is known, or over the top, has a wrong size: the known one
 * counts.
 */
static bool reaches_too_far(struct mt_glibc *g, const struct glibc_segment *s,
			    const struct chunk *c)
{
	uint64_t top = g->arenas[s->arena].state.top;

	return glibc_point_after(g, c->at + 16, c->at + c->size, s->arena) ||
	       (top > c->at && top < c->at + c->size);
}

/* Whether only marks of a chunk are wrong, its own or those behind it: its size leads on. */
static bool has_good_size(struct mt_glibc *g, const struct glibc_segment *s, const struct chunk *c)
{
	uint64_t next = c->at + c->size, to;

	if (c->size < GLIBC_MIN_CHUNK || c->size & 15 || c->size > s->limit - c->at ||
	    reaches_too_far(g, s, c))
		return false;
	to = next_known(g, s, next);
	if (to == next)
		return true;
	return to ? leads_to(g, s, next, to) : glibc_leads_to_end(g, s, next);
}

enum glibc_end glibc_walk(struct mt_glibc *g, const struct glibc_segment *s, uint64_t *ret_end)
{
	uint64_t at = s->start, before = 0, next;
	unsigned damages = 0;

	for (;;) {
		struct chunk c;
		enum step step = look_at(g, s, at, &c, ret_end);

		if (step == STEP_CHUNK && !reaches_too_far(g, s, &c)) {
			take_chunk(g, &c, s->arena);
			before = at;
			at = *ret_end;
			continue;
		}
		if (step == STEP_TOP)
			return GLIBC_AT_TOP;
		if (step == STEP_FENCE)
			return GLIBC_AT_FENCE;
		if (step == STEP_LIMIT)
			return GLIBC_AT_LIMIT;
		tell_broken(g, s->arena, at, before);
		if (has_good_size(g, s, &c)) {
			c.is_free = false;
			take_chunk(g, &c, s->arena);
			before = at;
			at += c.size;
			continue;
		}
		next = damages++ < DAMAGES_MAX ? next_proven(g, s, at + 16) : 0;
		if (!next)
			break;
		g->b->h->skipped_bytes += next - at;
		before = 0;
		at = next;
	}
	g->b->h->skipped_bytes += s->limit - at;
	*ret_end = s->limit;
	return GLIBC_BROKEN;
}
