/* SPDX-License-Identifier: MIT */
/* Places are collected one a site, then those of the same name come together: twice, for names are
 * dear and code addresses are not. */

#include "analysis/ends.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "core/cc.h"
#include "model/profile.h"

#include <errno.h>
#include <string.h>

/* A place before it has a name. */
struct spot {
	uint32_t profile, node, end, sites;
	uint64_t pc, allocs;
};

static uint32_t outermost(const struct mt_profile *p, uint32_t node, bool *ret_by_fp)
{
	*ret_by_fp = p->node[node].by_frame_pointer;
	while (p->node[node].depth > 1) {
		node = p->node[node].parent;
		*ret_by_fp |= p->node[node].by_frame_pointer;
	}
	return node;
}

static bool is_stopped(uint32_t end)
{
	return end != MT_PROFILE_END_COMPLETE && end != MT_PROFILE_END_DEPTH &&
	       end != MT_PROFILE_END_UNKNOWN;
}

/* Counts a site; *ret_spot is where its stack ends. */
static void add_site(const struct mt_profile *p, uint32_t site, struct mt_ends *ends,
		     struct spot *ret_spot)
{
	const struct mt_profile_site *s = &p->site[site];
	uint64_t allocs = mt_profile_recorded(p, site);
	bool by_fp;
	uint32_t node = outermost(p, s->node, &by_fp), end = p->node[s->node].end;

	if (end >= MT_END_GENERATED)
		end = MT_PROFILE_END_UNKNOWN;
	if (end == MT_PROFILE_END_NO_INFO && p->node[node].depth && !p->node[node].module)
		end = MT_END_GENERATED;
	ends->allocs[end] += allocs;
	ends->all += allocs;
	ends->by_fp += by_fp ? allocs : 0;
	*ret_spot = (struct spot){
		.node = end == MT_END_GENERATED ? 0 : node,
		.end = end,
		.sites = 1,
		.pc = end == MT_END_GENERATED ? 0 : p->node[node].pc,
		.allocs = allocs,
	};
}

static int compare_numbers(uint64_t a, uint64_t b)
{
	return a < b ? -1 : a > b;
}

static int compare_spots(const void *x, const void *y)
{
	const struct spot *a = x, *b = y;
	int c = compare_numbers(a->profile, b->profile);

	c = c ? c : compare_numbers(a->end, b->end);
	return c ? c : compare_numbers(a->pc, b->pc);
}

/* Sorts, adds up what is equal; the new count. */
static size_t merge_spots(struct spot *spot, size_t count)
{
	size_t n = 0;

	qsort(spot, count, sizeof(*spot), compare_spots);
	for (size_t i = 0; i < count; i++) {
		if (n && !compare_spots(&spot[n - 1], &spot[i])) {
			spot[n - 1].allocs += spot[i].allocs;
			spot[n - 1].sites += spot[i].sites;
		} else {
			spot[n++] = spot[i];
		}
	}
	return n;
}

static int compare_names(const void *x, const void *y)
{
	const struct mt_end_place *a = x, *b = y;
	int c = compare_numbers(a->end, b->end);

	c = c ? c : strcmp(a->module, b->module);
	return c ? c : strcmp(a->function, b->function);
}

static int compare_places(const void *x, const void *y)
{
	const struct mt_end_place *a = x, *b = y;
	int c = compare_numbers(b->allocs, a->allocs);

	return c ? c : compare_names(x, y);
}

static void merge_places(struct mt_ends *ends)
{
	size_t n = 0;

	qsort(ends->at, ends->count, sizeof(*ends->at), compare_names);
	for (size_t i = 0; i < ends->count; i++) {
		if (n && !compare_names(&ends->at[n - 1], &ends->at[i])) {
			ends->at[n - 1].allocs += ends->at[i].allocs;
			ends->at[n - 1].sites += ends->at[i].sites;
		} else {
			ends->at[n++] = ends->at[i];
		}
	}
	ends->count = n;
	qsort(ends->at, ends->count, sizeof(*ends->at), compare_places);
}

static int name_places(const struct mt_profile *const *profiles, const struct mt_names *names,
		       const struct spot *spot, size_t count, struct mt_ends *ends)
{
	char buf[512];

	ends->at = mt_arena_array(ends->arena, count + 1, sizeof(*ends->at));
	if (!ends->at)
		return -ENOMEM;
	for (ends->count = 0; ends->count < count; spot++) {
		const struct mt_profile *p = profiles[spot->profile];
		const struct mt_profile_node *n = &p->node[spot->node];
		struct mt_end_place *at = &ends->at[ends->count++];

		*at = (struct mt_end_place){.end = spot->end, .module = "", .allocs = spot->allocs};
		at->sites = spot->sites;
		if (n->module && n->module < p->module_count)
			at->module = mt_names_base(p->module[n->module].path);
		at->function = spot->pc ? mt_arena_strdup(ends->arena,
							  mt_names_function(names, p, spot->node,
									    buf, sizeof(buf)))
					: "";
		if (!at->function)
			return -ENOMEM;
	}
	return 0;
}

static size_t add_profile(const struct mt_profile *p, uint32_t number, struct mt_ends *ends,
			  struct spot *spot)
{
	size_t n = 0;

	for (uint32_t i = 1; i < p->site_count; i++) {
		if (!p->site[i].call || !mt_profile_recorded(p, i))
			continue;
		add_site(p, i, ends, &spot[n]);
		spot[n].profile = number;
		n += is_stopped(spot[n].end);
	}
	return n;
}

int mt_ends_find(const struct mt_profile *const *profiles, uint32_t count,
		 const struct mt_names *names, struct mt_ends *ret_ends)
{
	mt_auto(mt_ends) struct mt_ends ends = {.arena = mt_arena_new()};
	mt_auto(free) struct spot *spot = NULL;
	size_t sites = 1, n = 0;

	for (uint32_t i = 0; i < count; i++)
		sites += profiles[i]->site_count;
	spot = mt_alloc_zero(sites, sizeof(*spot));
	if (!spot || !ends.arena)
		return -ENOMEM;
	for (uint32_t i = 0; i < count; i++)
		n += add_profile(profiles[i], i, &ends, spot + n);
	n = merge_spots(spot, n);
	if (name_places(profiles, names, spot, n, &ends))
		return -ENOMEM;
	merge_places(&ends);
	*ret_ends = ends;
	ends.arena = NULL;
	return 0;
}

void mt_ends_done(struct mt_ends *ends)
{
	if (ends)
		mt_arena_free(ends->arena);
}
