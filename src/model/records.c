/* SPDX-License-Identifier: MIT */
/* A hash by site and size while blocks are added, then one sort: blocks may be many millions. */
#include "model/records.h"

#include <errno.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/map.h"
#include "core/cc.h"

struct builder {
	const struct mt_profile *p;
	struct mt_map index; /* site << 32 | size number -> record */
	struct mt_map sizes; /* size -> size number */
	struct mt_records out;
	double *weight; /* by record: count while it is a sum of weights; owned */
	size_t capacity, weight_capacity;
};

void mt_records_done(struct mt_records *r)
{
	if (!r)
		return;
	free(r->record);
	*r = (struct mt_records){0};
}

static int add_record(struct builder *b, uint32_t site, uint64_t size, uint64_t *ret_at)
{
	size_t count = b->out.count;
	struct mt_record *record =
		mt_alloc_grow(b->out.record, &b->capacity, count + 1, sizeof(*record));
	double *weight;

	if (!record)
		return -ENOMEM;
	b->out.record = record;
	weight = mt_alloc_grow(b->weight, &b->weight_capacity, count + 1, sizeof(*weight));
	if (!weight)
		return -ENOMEM;
	b->weight = weight;
	record[count] = (struct mt_record){.size = size, .site = site};
	weight[count] = 0;
	*ret_at = b->out.count++;
	return 0;
}

/* The record of a site and a size, made when it is new. */
static int find(struct builder *b, uint32_t site, uint64_t size, uint64_t *ret_at)
{
	bool created;
	uint64_t *number = mt_map_at(&b->sizes, size, &created), *at;

	if (!number)
		return -ENOMEM;
	if (created)
		*number = b->sizes.count;
	at = mt_map_at(&b->index, (uint64_t)site << 32 | *number, &created);
	if (!at)
		return -ENOMEM;
	if (created && add_record(b, site, size, at))
		return -ENOMEM;
	*ret_at = *at;
	return 0;
}

static int add(struct builder *b, uint32_t site, uint64_t size, uint64_t count)
{
	uint64_t at;
	int r = count ? find(b, site, size, &at) : 0;

	if (!r && count)
		b->out.record[at].count += count;
	return r;
}

static int add_sample(struct builder *b, uint32_t site, uint64_t size,
		      const struct mt_sampling *how)
{
	uint64_t at;
	int r = find(b, site, size, &at);

	if (!r)
		b->weight[at] += 1 / mt_sampling_probability(how, size);
	b->out.is_estimate = true;
	return r;
}

static int add_blocks(struct builder *b)
{
	const struct mt_profile *p = b->p;
	int r = 0;

	for (uint64_t i = 0; i < p->blocks && !r; i++) {
		const struct mt_profile_block *block = &p->block[i];
		uint32_t site = p->cell[block->cell].site;

		if (block->heap)
			continue;
		if (site && p->site[site].regime)
			r = add_sample(b, site, block->size,
				       &p->regime[p->site[site].regime].sampling);
		else
			r = add(b, site, block->size, 1);
	}
	return r;
}

/* Bytes and count of a site as one or two sizes: what the division leaves goes to some blocks. */
static int add_even(struct builder *b, uint32_t site, uint64_t bytes, uint64_t count)
{
	uint64_t larger = count ? bytes % count : 0, size = count ? bytes / count : 0;
	int r = add(b, site, size, count - larger);

	return r ? r : add(b, site, size + 1, larger);
}

static int add_snapshot(struct builder *b)
{
	int r = 0;

	for (uint32_t i = 1; i < b->p->site_count && !r; i++)
		if (!b->p->site[i].heap && b->p->site[i].call)
			r = add_even(b, i, b->p->site[i].live_bytes, b->p->site[i].live_count);
	return r;
}

static int compare(const void *a, const void *b)
{
	const struct mt_record *x = a, *y = b;

	if (x->site != y->site)
		return x->site < y->site ? -1 : 1;
	return x->size < y->size ? 1 : x->size > y->size ? -1 : 0;
}

int mt_records_make(const struct mt_profile *p, struct mt_records *ret_records)
{
	struct builder b = {.p = p};
	int r = p->snapshot ? add_snapshot(&b) : add_blocks(&b);

	for (uint64_t i = 0; i < p->groups && !r; i++)
		if (!p->site[p->cell[p->group[i].cell].site].heap)
			r = add(&b, p->cell[p->group[i].cell].site, p->group[i].size,
				p->group[i].count);
	for (size_t i = 0; i < b.out.count; i++)
		b.out.record[i].count += (uint64_t)(b.weight[i] + 0.5);
	if (b.out.count)
		qsort(b.out.record, b.out.count, sizeof(*b.out.record), compare);
	free(b.weight);
	mt_map_done(&b.index);
	mt_map_done(&b.sizes);
	if (r) {
		mt_records_done(&b.out);
		return r;
	}
	*ret_records = b.out;
	return 0;
}
