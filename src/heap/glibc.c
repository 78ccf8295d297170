/* SPDX-License-Identifier: MIT */
/*
 * Reads glibc's heap from outside: arenas and their stretches of chunks, lists of free ones, caches
 * of threads, blocks with mappings of their own. Every byte is taken for hostile: nothing is
 * followed that was not proven, no size is trusted beyond its mapping, and each loop ends by a
 * count.
 */

#include "heap/glibc.h"

#include "base/alloc.h"

#include <errno.h>
#include <stdlib.h>

static void done(struct mt_glibc *g)
{
	free(g->arenas);
	free(g->points);
	free(g->used);
	free(g->heaps);
	mt_map_done(&g->point_of);
}
MT_AUTO_DEFINE_INPLACE(glibc, struct mt_glibc, done)

static int by_address(const void *a, const void *b)
{
	const struct glibc_used *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

static void sort_used(struct mt_glibc *g)
{
	for (size_t i = 1; i < g->used_count; i++)
		if (g->used[i - 1].at > g->used[i].at) {
			qsort(g->used, g->used_count, sizeof(*g->used), by_address);
			return;
		}
}

/* Each chunk in use becomes a live block, or a free one. */
static void emit(struct mt_glibc *g)
{
	for (size_t i = 0; i < g->used_count; i++) {
		const struct glibc_used *u = &g->used[i];
		struct mt_heap_arena *a = &g->b->h->arenas[u->arena];
		uint64_t usable = u->size - 8;

		switch (u->state) {
		case GLIBC_IN_USE:
			mt_heap_add_live(g->b, u->arena, u->at + GLIBC_HEADER, usable);
			continue;
		case GLIBC_OWN:
			a->own_blocks++;
			a->own_bytes += usable;
			continue;
		case GLIBC_IN_CACHE:
			a->cached_blocks++;
			a->cached_bytes += usable;
			break;
		default:
			break;
		}
		a->free_blocks++;
		a->free_bytes += usable;
	}
}

/* Chunks of lists that no walk came to. */
static void tell_unseen(struct mt_glibc *g)
{
	for (size_t i = 0; i < g->point_count; i++) {
		const struct glibc_point *p = &g->points[i];

		if (!p->is_seen && !g->arenas[p->arena].is_broken)
			mt_heap_add_damage(g->b, p->at,
					   "a list of free chunks leads here, where no chunk "
					   "begins%s",
					   glibc_locked(&g->arenas[p->arena]));
	}
}

static void set_tries(struct mt_glibc *g)
{
	const uint64_t least = 1 << 26, most = 1 << 30;
	uint64_t chunks = 0;

	for (size_t i = 0; i < g->arena_count; i++)
		chunks += MT_MIN(g->arenas[i].state.system_bytes, (uint64_t)1 << 44) /
			  GLIBC_MIN_CHUNK;
	g->tries = MT_MIN(least + 2 * chunks, most);
}

int mt_heap_read_glibc(struct mt_heap_build *b, const struct mt_image_module *m, struct mt_err *err)
{
	mt_auto(glibc) struct mt_glibc g = {.b = b, .module = m};
	int code = glibc_find(&g, err);

	if (code)
		return code;
	if (glibc_find_arenas(&g))
		return mt_err_no_memory(err);
	set_tries(&g);
	for (size_t i = 0; i < g.arena_count; i++)
		glibc_read_lists(&g, (uint32_t)i);
	glibc_sort_points(&g);
	glibc_walk_main(&g);
	glibc_walk_heaps(&g);
	tell_unseen(&g);
	glibc_find_mapped(&g);
	sort_used(&g);
	glibc_find_caches(&g);
	emit(&g);
	return b->failed ? mt_err_no_memory(err) : 0;
}
