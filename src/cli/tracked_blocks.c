/* SPDX-License-Identifier: MIT */
/*
 * A state file goes on while the image is made. Blocks that are the same in the reading before and
 * in that after it are in the image for certain; all others may be.
 */

#include "cli/tracked_blocks.h"

#include "base/alloc.h"
#include "base/map.h"
#include "wire/state.h"

bool mt_tracked_is_table(const struct mt_profile *p)
{
	bool is_full =
		p->mode == MT_MODE_FULL || p->mode == MT_MODE_RECORD || p->mode == MT_MODE_CHECK;

	return is_full && !mt_profile_is_sampled(p) && (!p->first_mode || p->first_mode == p->mode);
}

static bool is_of_malloc(const struct mt_profile *p, uint64_t at)
{
	return p->block_address && p->block[at].heap == MT_HEAP_MALLOC;
}

static bool is_loaders(const struct mt_profile *p, uint32_t site)
{
	return site && p->module[p->node[p->site[site].node].module].is_loader;
}

static struct mt_known known_of(const struct mt_profile *p, uint64_t at)
{
	uint32_t site = p->cell[p->block[at].cell].site;

	return (struct mt_known){
		.address = p->block_address[at],
		.bytes = p->block[at].size,
		.stack = site,
		.tag = at,
		.is_loaders = is_loaders(p, site),
	};
}

static int by_address(const void *a, const void *b)
{
	const struct mt_known *x = a, *y = b;

	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return y->is_sure - x->is_sure;
}

struct mt_known *mt_tracked_blocks(const struct mt_profile *before, const struct mt_profile *after,
				   size_t *ret_count)
{
	mt_auto(free) struct mt_known *known =
		mt_alloc_zero(after->blocks + (before ? before->blocks : 0), sizeof(*known));
	mt_auto(mt_map) struct mt_map keys = {0}; /* of before -> 1: it is in after, too */
	struct mt_known *given;
	size_t n = 0;

	if (!known)
		return NULL;
	for (uint64_t i = 0; before && i < before->blocks; i++)
		if (is_of_malloc(before, i) && mt_map_set(&keys, before->block_key[i], 0))
			return NULL;
	for (uint64_t i = 0; i < after->blocks; i++) {
		if (!is_of_malloc(after, i))
			continue;
		known[n] = known_of(after, i);
		known[n].is_sure = !before || mt_map_get(&keys, after->block_key[i], NULL);
		if (known[n++].is_sure && before && mt_map_set(&keys, after->block_key[i], 1))
			return NULL;
	}
	for (uint64_t i = 0; before && i < before->blocks; i++) {
		uint64_t is_known = 1;

		if (!is_of_malloc(before, i) ||
		    (mt_map_get(&keys, before->block_key[i], &is_known) && is_known))
			continue;
		known[n] = known_of(before, i);
		known[n++].stack = 0;
	}
	qsort(known, n, sizeof(*known), by_address);
	*ret_count = n;
	given = known;
	known = NULL;
	return given;
}
