/* SPDX-License-Identifier: MIT */
/*
 * Building tables: one pass over a profile's blocks gives facts per site (age, growth, large
 * blocks), then each site, cell or size bucket is added to the row that the grouping names.
 */

#include "analysis/table.h"

#include "analysis/callstack.h"
#include "analysis/facts.h"
#include "analysis/filter.h"
#include "analysis/rows.h"
#include "base/alloc.h"
#include "base/arena.h"
#include "core/cc.h"
#include "model/profile.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LABEL_BYTES = 1024 };

struct builder {
	const struct mt_query *query;
	struct mt_table *table;
	struct mt_rows rows;
	/* of the profile that is being added */
	const struct mt_profile *p;
	uint32_t profile;
	struct mt_ages ages;
	uint64_t *hash;
	struct mt_facts *facts;   /* by site; element 0: blocks without a site */
	struct mt_chance *chance; /* the same; NULL: no profile was sampled */
	uint64_t *other_key;      /* of blocks that the other side has, sorted */
	size_t other_keys;
	bool *is_left_out;  /* by site: suppressed, or of a module that is not wanted */
	bool ignores_calls; /* heap dumps do not tell which function was called */
};

static bool is_heap_wanted(const struct builder *b, uint32_t heap)
{
	return b->query->heap == MT_HEAP_ANY || b->query->heap == heap;
}

static bool is_stopped(const struct builder *b)
{
	return b->query->stop && *b->query->stop;
}

/* Adds a block to a group's facts. `group` is its number in both arrays. */
static void add_block(struct builder *b, uint64_t number, uint32_t group, struct mt_facts *facts,
		      struct mt_chance *chance)
{
	const struct mt_profile_block *block = &b->p->block[number];
	bool is_only = b->query->other && (b->query->measure != MT_MEASURE_LARGE ||
					   block->size >= MT_LARGE_BLOCK_BYTES);

	if (is_only && b->p->block_key)
		is_only = !mt_facts_has_key(b->other_key, b->other_keys, b->p->block_key[number]);
	mt_facts_add(&facts[group], chance ? &chance[group] : NULL, &b->ages, block, is_only);
}

static bool is_block_wanted(struct builder *b, const struct mt_profile_block *block)
{
	return is_heap_wanted(b, block->heap) &&
	       (!b->query->min_age_ns || mt_ages_of(&b->ages, block) >= b->query->min_age_ns);
}

static void add_group(struct builder *b, uint64_t number, uint32_t to, struct mt_facts *facts,
		      struct mt_chance *chance)
{
	mt_facts_add_group(&facts[to], chance ? &chance[to] : NULL, &b->p->group[number]);
}

/* Groups have no age: none is old enough when one is asked for. */
static bool is_group_wanted(const struct builder *b, uint64_t number)
{
	const struct mt_profile_cell *c = &b->p->cell[b->p->group[number].cell];

	return is_heap_wanted(b, b->p->site[c->site].heap) && !b->query->min_age_ns;
}

/* Of a snapshot, which has no blocks. */
static void fill_snapshot_facts(struct builder *b)
{
	for (uint32_t i = 1; i < b->p->site_count; i++) {
		if (!is_heap_wanted(b, b->p->site[i].heap))
			continue;
		b->facts[i].recorded = b->p->site[i].live_count;
		b->facts[i].count = b->p->site[i].live_count;
		b->facts[i].bytes = b->p->site[i].live_bytes;
		if (b->chance)
			b->chance[i].live = mt_profile_flow(b->p, i).live;
	}
}

/* The other side, when it is of the same process and one of both is a snapshot. */
static const struct mt_profile *snapshots_other(const struct builder *b)
{
	const struct mt_query *q = b->query;

	for (uint32_t i = 0; i < q->other_count; i++)
		if ((b->p->snapshot || q->other[i]->snapshot) &&
		    mt_profile_is_same_process(b->p, q->other[i]))
			return q->other[i];
	return NULL;
}

/* Events are only ever added. */
static bool is_later(const struct mt_profile *a, const struct mt_profile *b)
{
	return a->totals.allocs + a->totals.frees > b->totals.allocs + b->totals.frees;
}

/* What the other side lacks, when one of both has no blocks but sums. */
static void fill_flows(struct builder *b, const struct mt_profile *other)
{
	bool later = is_later(b->p, other);

	for (uint32_t i = 1; i < b->p->site_count; i++) {
		struct mt_flow mine = mt_profile_flow(b->p, i), theirs = {0};
		struct mt_estimate came, went;

		if (!is_heap_wanted(b, b->p->site[i].heap))
			continue;
		b->chance[i].only = mine.live; /* known exactly, or nothing is in both */
		if (!b->p->site[i].regime)
			continue;
		if (i < other->site_count)
			theirs = mt_profile_flow(other, i);
		mt_flow_between(later ? &theirs : &mine, later ? &mine : &theirs, &came, &went);
		b->chance[i].only = later ? came : went;
	}
}

static void fill_facts(struct builder *b)
{
	const struct mt_profile *p = b->p, *other = snapshots_other(b);

	if (p->snapshot)
		fill_snapshot_facts(b);
	for (uint32_t i = 1; b->chance && i < p->site_count; i++) {
		mt_chance_expect(&b->chance[i], &p->regime[p->site[i].regime].sampling);
		if (p->site_sample && p->site_sample[i].live.is_least)
			mt_chance_lacks(&b->chance[i]);
	}
	for (uint64_t i = 0; i < p->blocks; i++)
		if (is_block_wanted(b, &p->block[i]))
			add_block(b, i, p->cell[p->block[i].cell].site, b->facts, b->chance);
	for (uint64_t i = 0; i < p->groups; i++)
		if (is_group_wanted(b, i))
			add_group(b, i, p->cell[p->group[i].cell].site, b->facts, b->chance);
	if (b->chance && other)
		fill_flows(b, other);
}

static void add_facts(const struct mt_profile *p, const struct mt_facts *f, struct mt_row *row)
{
	if (f->recorded) {
		row->newest_age_ns = row->live_count ? MT_MIN(row->newest_age_ns, f->newest_age_ns)
						     : f->newest_age_ns;
		row->oldest_age_ns = MT_MAX(row->oldest_age_ns, f->oldest_age_ns);
	}
	row->live_count += mt_facts_round(f->count);
	row->live_bytes += mt_facts_round(f->bytes);
	row->large_count += mt_facts_round(f->large_count);
	row->large_bytes += mt_facts_round(f->large_bytes);
	row->recent_bytes += mt_facts_round(f->quarter_bytes[2] + f->quarter_bytes[3]);
	row->lost_count += mt_facts_round(f->lost_count);
	row->lost_bytes += mt_facts_round(f->lost_bytes);
	row->held_count += mt_facts_round(f->held_count);
	row->held_bytes += mt_facts_round(f->held_bytes);
	row->is_growing |= mt_facts_is_growing(f, p);
}

/* A row gets the estimate of one more group. part NULL: 0 blocks of it. */
static int add_estimate(struct builder *b, struct mt_estimate **to, const struct mt_estimate *part)
{
	if (!*to)
		*to = mt_arena_zalloc(b->rows.arena, sizeof(**to));
	if (!*to)
		return -ENOMEM;
	mt_estimate_merge(*to, part);
	return 0;
}

/* Of a measure that comes from the block table. */
static int add_chance(struct builder *b, const struct mt_chance *chance, struct mt_row *row)
{
	enum mt_measure measure = b->query->measure;
	int err = 0;

	if (!chance || (measure != MT_MEASURE_LIVE && measure != MT_MEASURE_LARGE))
		return 0;
	err = add_estimate(b, &row->estimate,
			   measure == MT_MEASURE_LIVE ? &chance->live : &chance->large);
	return err || !b->query->other ? err : add_estimate(b, &row->only, &chance->only);
}

/* Of a measure that has counters of its own. */
static int add_counted(struct builder *b, const struct mt_estimate *e, struct mt_row *row)
{
	enum mt_measure measure = b->query->measure;

	if (!b->table->has_samples || (measure != MT_MEASURE_TOTAL && measure != MT_MEASURE_PEAK))
		return 0;
	return add_estimate(b, &row->estimate, e);
}

static void add_counts(const struct mt_profile_counts *c, struct mt_row *row)
{
	row->allocs += c->allocs;
	row->frees += c->frees;
	row->alloc_bytes += c->bytes;
	row->freed_bytes += c->freed_bytes;
	row->temporaries += c->temporaries;
}

/* The heaviest of the row's sites becomes its example; `bytes` is what this one brought. */
static void add_example(const struct builder *b, uint32_t site, uint64_t bytes, struct mt_row *row)
{
	row->site_count++;
	if (row->site && bytes <= row->example_bytes)
		return;
	row->example_bytes = bytes;
	row->profile = b->profile;
	row->site = site;
	row->node = mt_callstack_top(b->p, b->p->site[site].node);
}

static struct mt_row *get_labelled(struct builder *b, const char *label)
{
	return mt_rows_get(&b->rows, mt_hash_bytes(label, strlen(label), 0), label);
}

/* Same call stack, function called, heap and label: the same row. */
static struct mt_row *get_stack_row(struct builder *b, const struct mt_profile_site *s,
				    uint32_t top)
{
	const char *label = s->label && s->label < b->p->label_count ? b->p->label[s->label] : "";
	uint64_t part[3] = {b->hash[top], b->ignores_calls ? 0 : s->call, s->heap};
	struct mt_row *row;

	row = mt_rows_get(&b->rows,
			  mt_hash_bytes(label, strlen(label), mt_hash_bytes(part, sizeof(part), 0)),
			  NULL);
	if (row)
		row->hash = b->hash[top];
	return row;
}

/* The row of a site by what the query groups by; NULL: ENOMEM. */
static struct mt_row *get_site_row(struct builder *b, uint32_t site)
{
	const struct mt_profile *p = b->p;
	const struct mt_profile_site *s = &p->site[site];
	uint32_t top = mt_callstack_top(p, s->node);
	uint32_t module = top ? p->node[top].module : 0;
	char label[LABEL_BYTES];

	switch (b->query->by) {
	case MT_BY_FUNCTION:
		if (!top)
			return get_labelled(b, "(no call stack)");
		return get_labelled(
			b, mt_names_function(b->query->names, p, top, label, sizeof(label)));
	case MT_BY_MODULE:
		if (!module || module >= p->module_count)
			return get_labelled(b, "(in no known module)");
		return get_labelled(b, *p->module[module].path ? p->module[module].path : "?");
	case MT_BY_HEAP:
		return get_labelled(b, s->heap < p->heap_count ? p->heap[s->heap].name : "?");
	case MT_BY_LABEL:
		return get_labelled(b, s->label && s->label < p->label_count ? p->label[s->label]
									     : "(no label)");
	default:
		return get_stack_row(b, s, top);
	}
}

static int add_site(struct builder *b, uint32_t site)
{
	const struct mt_profile_site *s = &b->p->site[site];
	struct mt_row *row = get_site_row(b, site);
	struct mt_estimate e = mt_facts_site(b->p, site, b->query->measure);

	if (!row)
		return -ENOMEM;
	add_counts(&s->counts, row);
	row->recorded += mt_profile_recorded(b->p, site);
	add_facts(b->p, &b->facts[site], row);
	row->peak_bytes += s->peak_bytes;
	row->peak_bound_bytes += s->peak_bound_bytes;
	row->at_peak_bytes += s->at_peak_bytes;
	row->at_peak_count += s->at_peak_count;
	add_example(b, site,
		    b->query->measure == MT_MEASURE_LIVE ? mt_facts_round(b->facts[site].bytes)
							 : s->counts.bytes,
		    row);
	return add_chance(b, b->chance ? &b->chance[site] : NULL, row) || add_counted(b, &e, row)
		       ? -ENOMEM
		       : 0;
}

static int add_sites(struct builder *b)
{
	for (uint32_t i = 1; i < b->p->site_count && !is_stopped(b); i++) {
		int err;

		if (b->is_left_out[i] || !b->p->site[i].call ||
		    !is_heap_wanted(b, b->p->site[i].heap))
			continue;
		err = add_site(b, i);
		if (err)
			return err;
	}
	return 0;
}

/* Allocations and blocks whose site is not known: tables were full. */
static int add_unplaced(struct builder *b)
{
	struct mt_profile_counts counts = {0};
	struct mt_row *row;

	for (uint32_t i = 1; i < b->p->thread_count; i++) {
		counts.allocs += b->p->thread[i].unplaced_allocs;
		counts.bytes += b->p->thread[i].unplaced_bytes;
	}
	if (b->is_left_out[0] || !is_heap_wanted(b, 0) || (!counts.allocs && !b->facts[0].recorded))
		return 0;
	row = get_labelled(b, "(site not recorded: left out by options, or tables were full)");
	if (!row)
		return -ENOMEM;
	row->is_unplaced = true;
	add_counts(&counts, row);
	row->recorded += counts.allocs;
	add_facts(b->p, &b->facts[0], row);
	return add_chance(b, b->chance, row);
}

static char *name_thread(const struct mt_profile *p, uint32_t thread, char *buf, size_t len)
{
	if (!thread || thread >= p->thread_count)
		snprintf(buf, len, "(thread not known)");
	else
		snprintf(buf, len, "%s (thread %" PRIu32 " of process %" PRId32 ")",
			 p->thread[thread].name[0] ? p->thread[thread].name : "?",
			 p->thread[thread].tid, p->pid);
	return buf;
}

static struct mt_row *get_thread_row(struct builder *b, uint32_t thread)
{
	char label[LABEL_BYTES];

	return get_labelled(b, name_thread(b->p, thread, label, sizeof(label)));
}

/* Whether samples of a thread (UINT32_MAX: of any) found no room. */
static bool lacks_samples(const struct mt_profile *p, uint32_t thread)
{
	bool lacks = false;

	for (uint32_t i = 1; p->stats && i < p->thread_count; i++)
		lacks |= (thread == UINT32_MAX || thread == i) &&
			 (p->stats[i].no_block || p->stats[i].no_site);
	return lacks;
}

static int add_thread_rows(struct builder *b, const struct mt_facts *facts,
			   const struct mt_chance *chance)
{
	for (uint32_t i = 0; i < b->p->thread_count; i++) {
		struct mt_row *row;

		if (!facts[i].recorded)
			continue;
		row = get_thread_row(b, i);
		if (!row)
			return -ENOMEM;
		add_facts(b->p, &facts[i], row);
		if (add_chance(b, chance ? &chance[i] : NULL, row))
			return -ENOMEM;
	}
	return 0;
}

/* Live blocks one by one: cells cannot tell old blocks from young ones. */
static int add_thread_blocks(struct builder *b)
{
	const struct mt_profile *p = b->p;
	mt_auto(free) struct mt_facts *facts = mt_alloc_zero(p->thread_count, sizeof(*facts));
	mt_auto(free) struct mt_chance *chance = NULL;

	if (b->chance)
		chance = mt_alloc_zero(p->thread_count, sizeof(*chance));
	if (!facts || (b->chance && !chance))
		return -ENOMEM;
	for (uint32_t i = 1; chance && i < p->thread_count; i++)
		if (lacks_samples(p, i))
			mt_chance_lacks(&chance[i]);
	for (uint64_t i = 0; i < p->blocks && !is_stopped(b); i++) {
		const struct mt_profile_cell *c = &p->cell[p->block[i].cell];

		if (!b->is_left_out[c->site] && is_block_wanted(b, &p->block[i]))
			add_block(b, i, c->thread, facts, chance);
	}
	for (uint64_t i = 0; i < p->groups && !is_stopped(b); i++) {
		const struct mt_profile_cell *c = &p->cell[p->group[i].cell];

		if (!b->is_left_out[c->site] && is_group_wanted(b, i))
			add_group(b, i, c->thread, facts, chance);
	}
	return add_thread_rows(b, facts, chance);
}

static int add_threads(struct builder *b)
{
	for (uint32_t i = 1; i < b->p->cell_count && !is_stopped(b); i++) {
		const struct mt_profile_cell *c = &b->p->cell[i];
		struct mt_row *row;

		if (!c->site || c->site >= b->p->site_count || b->is_left_out[c->site] ||
		    !is_heap_wanted(b, b->p->site[c->site].heap))
			continue;
		struct mt_estimate e = mt_facts_cell_total(b->p, i);

		row = get_thread_row(b, c->thread);
		if (!row || add_counted(b, &e, row))
			return -ENOMEM;
		add_counts(&c->counts, row);
		add_example(b, c->site,
			    b->query->measure == MT_MEASURE_LIVE ? c->live_bytes : c->counts.bytes,
			    row);
	}
	return add_thread_blocks(b);
}

static uint32_t size_bucket(uint64_t size)
{
	uint32_t bucket = size ? 64 - (uint32_t)__builtin_clzll(size) : 0;

	return MT_MIN(bucket, (uint32_t)MT_HIST_BUCKETS - 1);
}

static struct mt_row *get_size_row(struct builder *b, uint32_t bucket)
{
	char label[LABEL_BYTES];
	uint64_t lo = bucket ? 1ull << (bucket - 1) : 0;

	if (bucket + 1 == MT_HIST_BUCKETS)
		snprintf(label, sizeof(label), "%" PRIu64 "..", lo);
	else
		snprintf(label, sizeof(label), "%" PRIu64 "..%" PRIu64, lo,
			 bucket ? lo * 2 - 1 : 0);
	return mt_rows_get(&b->rows, bucket, label);
}

/* Allocations by size; of sampled sites they are not known. */
static void count_sizes(struct builder *b, uint64_t allocs[MT_HIST_BUCKETS])
{
	uint64_t missing = 0;

	for (uint32_t i = 1; i < b->p->site_count && !is_stopped(b); i++)
		if (!b->is_left_out[i] && is_heap_wanted(b, b->p->site[i].heap) &&
		    !b->p->site[i].regime)
			mt_profile_add_sizes(b->p, i, allocs, &missing);
}

static int add_sizes(struct builder *b)
{
	struct mt_facts facts[MT_HIST_BUCKETS] = {0};
	struct mt_chance chance[MT_HIST_BUCKETS] = {0};
	uint64_t allocs[MT_HIST_BUCKETS] = {0};

	for (uint64_t i = 0; i < b->p->blocks && !is_stopped(b); i++) {
		const struct mt_profile_block *block = &b->p->block[i];

		if (!b->is_left_out[b->p->cell[block->cell].site] && is_block_wanted(b, block))
			add_block(b, i, size_bucket(block->size), facts, chance);
	}
	for (uint64_t i = 0; i < b->p->groups && !is_stopped(b); i++) {
		const struct mt_profile_group *g = &b->p->group[i];

		if (!b->is_left_out[b->p->cell[g->cell].site] && is_group_wanted(b, i))
			add_group(b, i, size_bucket(g->size), facts, chance);
	}
	for (uint32_t i = 0; b->chance && i < MT_HIST_BUCKETS; i++)
		if (lacks_samples(b->p, UINT32_MAX))
			mt_chance_lacks(&chance[i]);
	count_sizes(b, allocs);
	for (uint32_t i = 0; i < MT_HIST_BUCKETS; i++) {
		struct mt_row *row;

		if (!facts[i].recorded && !allocs[i])
			continue;
		row = get_size_row(b, i);
		if (!row || add_chance(b, b->chance ? &chance[i] : NULL, row))
			return -ENOMEM;
		row->allocs += allocs[i];
		add_facts(b->p, &facts[i], row);
	}
	return 0;
}

static void mark_unwanted(struct builder *b)
{
	b->is_left_out[0] = b->query->modules && *b->query->modules;
	for (uint32_t i = 1; i < b->p->site_count && !is_stopped(b); i++)
		b->is_left_out[i] = !mt_filter_module(b->p, i, b->query->modules);
}

static void mark_suppressed(struct builder *b)
{
	const struct mt_query *q = b->query;

	for (uint32_t i = 1; q->is_suppressed && i < b->p->site_count && !is_stopped(b); i++) {
		if (b->is_left_out[i] || !is_heap_wanted(b, b->p->site[i].heap) ||
		    !b->facts[i].recorded)
			continue;
		if (!q->is_suppressed(q->suppress_context, b->p, i))
			continue;
		b->is_left_out[i] = true;
		b->table->suppressed_sites++;
		b->table->suppressed_count += mt_facts_round(b->facts[i].count);
		b->table->suppressed_bytes += mt_facts_round(b->facts[i].bytes);
	}
}

/* Whether the profile has anything of a heap: most have no custom heap, and no mapping. */
static bool may_have(const struct mt_profile *p, uint32_t heap)
{
	if (!heap || heap == MT_HEAP_ANY)
		return true;
	return heap < p->heap_count && (p->heap[heap].counts.allocs || p->heap[heap].live_count);
}

/* What is kept while a profile is added. */
static int begin_profile(struct builder *b)
{
	const struct mt_query *q = b->query;
	bool failed = false;

	mt_ages_init(&b->ages, b->p);
	b->hash = mt_callstack_hashes(b->p, q->match_names ? q->names : NULL);
	b->facts = mt_alloc_zero(b->p->site_count + 1u, sizeof(*b->facts));
	b->is_left_out = mt_alloc_zero(b->p->site_count + 1u, sizeof(*b->is_left_out));
	if (b->table->has_samples)
		b->chance = mt_alloc_zero(b->p->site_count + 1u, sizeof(*b->chance));
	if (q->other && b->p->block_key)
		b->other_key =
			mt_facts_keys(b->p, q->other, q->other_count, &b->other_keys, &failed);
	return b->hash && b->facts && b->is_left_out && !failed &&
			       (b->chance || !b->table->has_samples)
		       ? 0
		       : -ENOMEM;
}

static void end_profile(struct builder *b)
{
	free(b->hash);
	free(b->facts);
	free(b->chance);
	free(b->other_key);
	free(b->is_left_out);
	b->hash = b->other_key = NULL;
	b->facts = NULL;
	b->chance = NULL;
	b->is_left_out = NULL;
	b->other_keys = 0;
}

static int add_profile(struct builder *b)
{
	int err;

	if (!may_have(b->p, b->query->heap))
		return 0;
	err = begin_profile(b);
	if (err)
		return err;
	fill_facts(b);
	mark_unwanted(b);
	mark_suppressed(b);
	if (b->query->by == MT_BY_THREAD)
		return add_threads(b);
	if (b->query->by == MT_BY_SIZE)
		return add_sizes(b);
	err = add_sites(b);
	return err ? err : add_unplaced(b);
}

static void take_measure(const struct mt_query *q, struct mt_row *row)
{
	switch (q->measure) {
	case MT_MEASURE_PEAK:
		row->count = row->at_peak_count;
		row->bytes = row->at_peak_bytes;
		break;
	case MT_MEASURE_TOTAL:
		row->count = row->allocs;
		row->bytes = row->alloc_bytes;
		break;
	case MT_MEASURE_TEMPORARY:
		row->count = row->temporaries;
		row->bytes = 0;
		break;
	case MT_MEASURE_LARGE:
		row->count = row->large_count;
		row->bytes = row->large_bytes;
		break;
	default:
		row->count = row->live_count;
		row->bytes = row->live_bytes;
	}
}

static uint64_t sort_value(const struct mt_row *row, enum mt_sort sort)
{
	switch (sort) {
	case MT_SORT_COUNT:
		return row->count;
	case MT_SORT_GROWTH:
		return row->recent_bytes;
	case MT_SORT_AGE:
		return row->oldest_age_ns;
	default:
		return row->bytes;
	}
}

static int compare_u64(uint64_t a, uint64_t b)
{
	return a < b ? 1 : a > b ? -1 : 0; /* larger first */
}

static int compare_rows(const void *a, const void *b, void *query)
{
	const struct mt_row *x = a, *y = b;
	const struct mt_query *q = query;
	int order = compare_u64(sort_value(x, q->sort), sort_value(y, q->sort));

	if (!order)
		order = compare_u64(x->bytes, y->bytes);
	if (!order)
		order = compare_u64(x->count, y->count);
	if (!order && x->label && y->label)
		order = strcmp(x->label, y->label);
	return order ? order : compare_u64(x->key, y->key);
}

/* What is live is estimated from blocks, what was ever allocated from counters of the tracker,
 * which are rounded otherwise. */
static void round_live(struct mt_row *row)
{
	if (row->alloc_bytes)
		row->live_bytes = MT_MIN(row->live_bytes, row->alloc_bytes);
	if (row->allocs)
		row->live_count = MT_MIN(row->live_count, row->allocs);
}

static void finish(struct builder *b)
{
	struct mt_table *t = b->table;
	size_t kept = 0;

	for (size_t i = 0; i < b->rows.count; i++) {
		struct mt_row *row = &b->rows.row[i];

		if (t->has_samples)
			round_live(row);
		take_measure(&t->query, row);
		if (row->estimate) /* also one of which nothing found room */
			t->estimate.is_least |= row->estimate->is_least;
		if (!row->count && !row->bytes)
			continue;
		t->count += row->count;
		t->bytes += row->bytes;
		t->lost_count += row->lost_count;
		t->lost_bytes += row->lost_bytes;
		t->held_count += row->held_count;
		t->held_bytes += row->held_bytes;
		if (row->estimate)
			mt_estimate_merge(&t->estimate, row->estimate);
		if (row->only)
			mt_estimate_merge(&t->only, row->only);
		b->rows.row[kept++] = *row;
	}
	t->row = b->rows.row;
	t->row_count = (uint32_t)kept;
	t->is_partial = is_stopped(b);
	b->rows.row = NULL;
	mt_rows_done(&b->rows);
	if (kept)
		qsort_r(t->row, kept, sizeof(*t->row), compare_rows, &t->query);
}

static bool is_known(const struct mt_query *q, bool has_samples)
{
	bool is_by_block = q->by == MT_BY_SIZE || q->by == MT_BY_THREAD;

	if (has_samples && q->measure == MT_MEASURE_TOTAL && q->by == MT_BY_SIZE)
		return false;

	if (q->measure == MT_MEASURE_PEAK)
		return !is_by_block;
	return q->measure != MT_MEASURE_TEMPORARY || q->by != MT_BY_SIZE;
}

static bool any_sampled(const struct mt_profile *const *profiles, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (mt_profile_is_sampled(profiles[i]))
			return true;
	return false;
}

static bool any_dump(const struct mt_profile *const *profiles, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		if (profiles[i]->source == MT_PROFILE_OF_HEAP_DUMP)
			return true;
	return false;
}

static struct mt_table *new_table(const struct mt_profile *const *profiles, uint32_t count,
				  const struct mt_query *q)
{
	struct mt_table *t = mt_alloc_zero(1, sizeof(*t));

	if (!t)
		return NULL;
	t->query = *q;
	t->arena = mt_arena_new();
	if (!t->arena) {
		free(t);
		return NULL;
	}
	t->has_samples = any_sampled(profiles, count) || any_sampled(q->other, q->other_count);
	t->is_same_process = count == 1 && q->other_count == 1 &&
			     mt_profile_is_same_process(profiles[0], q->other[0]);
	return t;
}

int mt_table_build(const struct mt_profile *const *profiles, uint32_t count,
		   const struct mt_query *query, struct mt_table **ret_table)
{
	struct builder b = {.query = query,
			    .ignores_calls = any_dump(profiles, count) ||
					     any_dump(query->other, query->other_count)};
	int err = 0;

	if (!is_known(query, any_sampled(profiles, count)))
		return -EINVAL;
	b.table = new_table(profiles, count, query);
	if (!b.table)
		return -ENOMEM;
	b.rows.arena = b.table->arena;
	for (uint32_t i = 0; i < count && !err && !is_stopped(&b); i++) {
		b.p = profiles[i];
		b.profile = i;
		b.table->has_look |= b.p->block_mark != NULL;
		err = add_profile(&b);
		end_profile(&b);
	}
	if (err) {
		mt_rows_done(&b.rows);
		mt_table_free(b.table);
		return err;
	}
	finish(&b);
	*ret_table = b.table;
	return 0;
}

void mt_table_free(struct mt_table *table)
{
	if (!table)
		return;
	mt_arena_free(table->arena);
	free(table->row);
	free(table);
}

struct mt_small_rows mt_table_below(const struct mt_table *table, uint64_t threshold_bytes)
{
	struct mt_small_rows small = {0};

	for (uint32_t i = 0; i < table->row_count; i++) {
		if (table->row[i].bytes >= threshold_bytes)
			continue;
		small.rows++;
		small.count += table->row[i].count;
		small.bytes += table->row[i].bytes;
	}
	return small;
}
