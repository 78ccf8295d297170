/* SPDX-License-Identifier: MIT */
/*
 * Arenas: the main one, those of its ring, and those that only the heaps at multiples of 64 MiB
 * know. A heap is one when it names an arena, and an arena that lies in a heap names that heap.
 */

#include "heap/glibc.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

enum { ARENAS_MAX = 1 << 16, HEAPS_MAX = 1 << 20 };

/* The first words of a heap. */
struct heap_info {
	uint64_t arena, before, bytes, writable_bytes;
};

static bool has_arena(const struct mt_glibc *g, uint64_t address, uint32_t *ret_index)
{
	for (size_t i = 0; i < g->arena_count; i++)
		if (g->arenas[i].address == address) {
			if (ret_index)
				*ret_index = (uint32_t)i;
			return true;
		}
	return false;
}

/* The last chunk, which is never given: what it holds, or what is wrong with it. */
static void look_at_top(struct mt_glibc *g, struct glibc_arena *a)
{
	uint64_t top = a->state.top, word = 0;

	if (!top || top == a->address + offsetof(struct glibc_state, top))
		return; /* nothing was taken from the system yet */
	if (!(top & 15) && !mt_peek_u64(&g->b->peek, top + 8, &word) && word & GLIBC_PREV_IN_USE &&
	    !(word & 14) && glibc_size(word) >= GLIBC_FENCE &&
	    mt_heap_is_writable(g->b, top, glibc_size(word))) {
		a->top_bytes = glibc_size(word);
		return;
	}
	mt_heap_add_damage(g->b, top,
			   "the last chunk of the arena at 0x%" PRIx64
			   " cannot have the size word 0x%" PRIx64 "%s",
			   a->address, word, glibc_locked(a));
}

/* -EFAULT: it cannot be read. */
static int add_arena(struct mt_glibc *g, uint64_t address)
{
	struct glibc_arena *grown, *a;

	grown = mt_alloc_grow(g->arenas, &g->arena_cap, g->arena_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	g->arenas = grown;
	a = &g->arenas[g->arena_count];
	*a = (struct glibc_arena){.address = address, .is_main = !g->arena_count};
	if (mt_peek(&g->b->peek, address, &a->state, sizeof(a->state)))
		return -EFAULT;
	a->is_locked = a->state.mutex != 0;
	mt_heap_add_arena(g->b, address);
	if (g->b->failed)
		return -ENOMEM;
	g->arena_count++;
	look_at_top(g, a);
	return 0;
}

/* A secondary arena lies behind the first words of its first heap. */
static bool is_in_own_heap(struct mt_glibc *g, uint64_t address)
{
	uint64_t heap = address - g->layout.heap_info_bytes, owner;

	return !(heap & (g->params.heap_bytes_max - 1)) &&
	       !mt_peek_u64(&g->b->peek, heap, &owner) && owner == address;
}

static int follow_ring(struct mt_glibc *g)
{
	int code = add_arena(g, g->main_arena);
	uint64_t at = code ? 0 : g->arenas[0].state.next, last = g->main_arena;

	while (!code && at != g->main_arena) {
		if (g->arena_count == ARENAS_MAX || !is_in_own_heap(g, at) ||
		    has_arena(g, at, NULL) || (code = add_arena(g, at)) == -EFAULT) {
			mt_heap_add_damage(g->b, last,
					   "this arena names 0x%" PRIx64
					   " as the next one, where there is none",
					   at);
			return 0;
		}
		last = at;
		at = code ? 0 : g->arenas[g->arena_count - 1].state.next;
	}
	return code == -EFAULT ? -ENOMEM : code;
}

/* Adds what lies at a multiple of the greatest size of heaps, if it is one. */
static int take_heap(struct mt_glibc *g, uint64_t at)
{
	struct glibc_heap *grown;
	struct heap_info info;
	uint32_t arena;
	int code;

	if (mt_peek(&g->b->peek, at, &info, sizeof(info)) || !info.arena ||
	    info.bytes > g->params.heap_bytes_max || info.bytes < 4096 || info.bytes & 4095 ||
	    info.before & (g->params.heap_bytes_max - 1) ||
	    !mt_heap_is_writable(g->b, at, info.bytes))
		return 0;
	if (!has_arena(g, info.arena, &arena)) {
		if (info.arena != at + g->layout.heap_info_bytes || info.before ||
		    g->arena_count == ARENAS_MAX)
			return 0;
		code = add_arena(g, info.arena);
		if (code)
			return code == -EFAULT ? 0 : code;
		arena = (uint32_t)g->arena_count - 1;
		if (g->arenas[arena].state.system_bytes < info.bytes) { /* something else */
			g->arena_count--;
			g->b->h->arena_count--;
			return 0;
		}
		mt_heap_add_damage(g->b, info.arena,
				   "this arena is not among those that the main arena leads to");
	}
	if (!arena) /* the main arena has no heaps of this kind */
		return 0;
	grown = mt_alloc_grow(g->heaps, &g->heap_cap, g->heap_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	g->heaps = grown;
	g->heaps[g->heap_count++] =
		(struct glibc_heap){.address = at, .bytes = info.bytes, .arena = arena};
	return 0;
}

int glibc_find_arenas(struct mt_glibc *g)
{
	const uint64_t step = g->params.heap_bytes_max;
	size_t count, looked = 0;
	const struct mt_mapping *m = mt_image_mappings(g->b->im, &count);
	int code = follow_ring(g);

	for (size_t i = 0; i < count && !code; i++) {
		if ((m[i].flags & 3) != 3 || m[i].inode)
			continue;
		for (uint64_t at = MT_ALIGN_UP(m[i].start, step);
		     at >= m[i].start && at < m[i].end && looked < HEAPS_MAX && !code; at += step) {
			looked++;
			code = take_heap(g, at);
		}
	}
	return code;
}
