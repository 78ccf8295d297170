/* SPDX-License-Identifier: MIT */
/* Blocks, weighed. */
#include "analysis/facts.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "core/cc.h"

enum {
	GROWING_BLOCKS = 8, /* fewer live blocks say nothing about growth */
	GROWING_SHARE = 10, /* each quarter of the run must have left 1/10 of the bytes */
};
#define GROWING_RUN_NS 1000000000u /* shorter runs say nothing about growth */

void mt_ages_init(struct mt_ages *a, const struct mt_profile *p)
{
	*a = (struct mt_ages){.p = p, .clock = p->clock};
}

/* Neighbours are mostly of the same time. */
static uint64_t born_ns(struct mt_ages *a, const struct mt_profile_block *block)
{
	if (block->born != a->born || !a->born_ns) {
		a->born = block->born;
		a->born_ns = mt_profile_clock_at(&a->clock, block->born);
	}
	return a->born_ns;
}

uint64_t mt_ages_of(struct mt_ages *a, const struct mt_profile_block *block)
{
	uint64_t born = born_ns(a, block);

	return a->p->duration_ns > born ? a->p->duration_ns - born : 0;
}

/* Nothing is left to chance among large blocks when all of them are recorded for sure. */
static struct mt_sampling among_large(const struct mt_sampling *how)
{
	bool is_sure = how->kind == MT_SAMPLING_POISSON &&
		       mt_sampling_certain_bytes(how->interval_bytes) <= MT_LARGE_BLOCK_BYTES;

	return is_sure ? (struct mt_sampling){0} : *how;
}

void mt_chance_expect(struct mt_chance *chance, const struct mt_sampling *how)
{
	struct mt_sampling large = among_large(how);

	mt_estimate_expect(&chance->live, how);
	mt_estimate_expect(&chance->large, &large);
}

void mt_chance_lacks(struct mt_chance *chance)
{
	chance->live.is_least = chance->large.is_least = chance->only.is_least = true;
}

static void add_chance(struct mt_chance *chance, const struct mt_sampling *how, uint64_t size,
		       bool is_only)
{
	struct mt_sampling large = among_large(how);

	mt_estimate_add(&chance->live, how, size);
	if (size >= MT_LARGE_BLOCK_BYTES)
		mt_estimate_add(&chance->large, &large, size);
	if (is_only)
		mt_estimate_add(&chance->only, how, size);
}

/* What the look says of it, if there was one. */
static void add_mark(struct mt_facts *f, const struct mt_profile *p,
		     const struct mt_profile_block *block, double weight)
{
	uint8_t mark = p->block_mark ? p->block_mark[block - p->block] : MT_BLOCK_UNSEEN;
	double bytes = (double)block->size * weight;

	if (mark == MT_BLOCK_LOST) {
		f->lost_count += weight;
		f->lost_bytes += bytes;
	} else if (mark == MT_BLOCK_HELD) {
		f->held_count += weight;
		f->held_bytes += bytes;
	}
}

void mt_facts_add(struct mt_facts *f, struct mt_chance *chance, struct mt_ages *a,
		  const struct mt_profile_block *block, bool is_only)
{
	static const struct mt_sampling all;
	const struct mt_sampling *how = a->p->site_sample ? mt_profile_sampling(a->p, block) : &all;
	double weight = how->kind ? 1 / mt_sampling_probability(how, block->size) : 1;
	double bytes = (double)block->size * weight;
	uint64_t age = mt_ages_of(a, block), quarter_ns = a->p->duration_ns / MT_FACTS_QUARTERS;
	uint64_t quarter = quarter_ns ? born_ns(a, block) / quarter_ns : 0;

	f->oldest_age_ns = MT_MAX(f->oldest_age_ns, age);
	f->newest_age_ns = f->recorded ? MT_MIN(f->newest_age_ns, age) : age;
	f->recorded++;
	f->count += weight;
	f->bytes += bytes;
	f->quarter_bytes[MT_MIN(quarter, (uint64_t)MT_FACTS_QUARTERS - 1)] += bytes;
	add_mark(f, a->p, block, weight);
	if (block->size >= MT_LARGE_BLOCK_BYTES) {
		f->large_count += weight;
		f->large_bytes += bytes;
	}
	if (chance)
		add_chance(chance, how, block->size, is_only);
}

static void add_certain(struct mt_estimate *e, double count, double bytes)
{
	e->certain += (uint64_t)count;
	e->count += count;
	e->bytes += bytes;
	e->seen_bytes += bytes;
}

void mt_facts_add_group(struct mt_facts *f, struct mt_chance *chance,
			const struct mt_profile_group *group)
{
	double count = (double)group->count, bytes = (double)group->size * count;
	bool is_large = group->size >= MT_LARGE_BLOCK_BYTES;

	f->recorded += group->count;
	f->count += count;
	f->bytes += bytes;
	if (is_large) {
		f->large_count += count;
		f->large_bytes += bytes;
	}
	if (!chance)
		return;
	add_certain(&chance->live, count, bytes);
	add_certain(&chance->only, count, bytes);
	if (is_large)
		add_certain(&chance->large, count, bytes);
}

bool mt_facts_is_growing(const struct mt_facts *f, const struct mt_profile *p)
{
	if (p->duration_ns < GROWING_RUN_NS || f->recorded < GROWING_BLOCKS)
		return false;
	for (int i = 0; i < MT_FACTS_QUARTERS; i++)
		if (f->quarter_bytes[i] < floor(f->bytes / GROWING_SHARE) || !f->quarter_bytes[i])
			return false;
	return true;
}

uint64_t mt_facts_round(double v)
{
	return !(v > 0) ? 0 : v >= 0x1p64 ? UINT64_MAX : (uint64_t)(v + 0.5);
}

/*
 * Live at the peak: the samples are not known one by one any more, so their variance is not known
 * either. It is at most T times the bytes, and at most T^2 a sample; of every Nth it is taken as
 * that of equal blocks.
 */
static struct mt_estimate at_peak(const struct mt_profile_site *s, const struct mt_sampling *how)
{
	struct mt_estimate e = {.samples = s->at_peak_count,
				.count = (double)s->at_peak_count,
				.bytes = (double)s->at_peak_bytes};

	double interval = (double)how->interval_bytes;

	mt_estimate_expect(&e, how);
	if (how->kind == MT_SAMPLING_POISSON)
		e.bytes_variance = fmin(e.bytes, e.count * interval) * interval;
	else
		e.bytes_variance = e.bytes * e.bytes / fmax(1, e.count);
	return e;
}

struct mt_estimate mt_facts_site(const struct mt_profile *p, uint32_t site, enum mt_measure measure)
{
	const struct mt_profile_site *s = &p->site[site];
	const struct mt_sampling *how = &p->regime[s->regime].sampling;

	if (measure == MT_MEASURE_PEAK) {
		struct mt_estimate e =
			mt_sampling_is_partial(how)
				? at_peak(s, how)
				: mt_estimate_of_all(s->at_peak_count, s->at_peak_bytes);

		/* what has no block never goes by the counters */
		e.is_least = s->regime && p->site_sample[site].total.is_least;
		e.is_most = s->regime && p->site_sample[site].lacks_blocks;
		return e;
	}
	return s->regime ? p->site_sample[site].total
			 : mt_estimate_of_all(s->counts.allocs, s->counts.bytes);
}

struct mt_estimate mt_facts_cell_total(const struct mt_profile *p, uint32_t cell)
{
	const struct mt_profile_counts *c = &p->cell[cell].counts;

	uint32_t site = p->cell[cell].site;
	struct mt_estimate e;

	if (!p->site[site].regime)
		return mt_estimate_of_all(c->allocs, c->bytes);
	e = p->cell_sample[cell].total;
	e.is_least = p->site_sample[site].total.is_least;
	return e;
}

static int compare_keys(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

uint64_t *mt_facts_keys(const struct mt_profile *p, const struct mt_profile *const *others,
			uint32_t other_count, size_t *ret_count, bool *ret_failed)
{
	uint64_t *keys = NULL;
	size_t capacity = 0, count = 0;

	*ret_failed = false;
	for (uint32_t i = 0; i < other_count; i++) {
		const struct mt_profile *o = others[i];
		uint64_t *grown;

		if (!o->block_key || !mt_profile_is_same_process(p, o))
			continue;
		grown = mt_alloc_grow(keys, &capacity, count + o->blocks, sizeof(*keys));
		if (!grown) {
			free(keys);
			*ret_failed = true;
			return NULL;
		}
		keys = grown;
		for (uint64_t k = 0; k < o->blocks; k++)
			keys[count++] = o->block_key[k];
	}
	if (count)
		qsort(keys, count, sizeof(*keys), compare_keys);
	*ret_count = count;
	return keys;
}

bool mt_facts_has_key(const uint64_t *keys, size_t count, uint64_t key)
{
	return count && bsearch(&key, keys, count, sizeof(key), compare_keys);
}
