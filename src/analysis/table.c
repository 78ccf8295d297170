/* SPDX-License-Identifier: MIT */
/*
 * Building tables: one pass over a profile's blocks gives facts per site (age, growth, large
 * blocks), then each site, cell or size bucket is added to the row that the grouping names.
 */

#include "analysis/table.h"

#include "analysis/callstack.h"
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

enum {
	QUARTERS = 4,
	GROWING_BLOCKS = 8, /* fewer live blocks say nothing about growth */
	GROWING_SHARE = 10, /* each quarter of the run must have left 1/10 of the bytes */
	LABEL_BYTES = 1024,
};
#define GROWING_RUN_NS 1000000000u /* shorter runs say nothing about growth */

/* What the block table says about one site. */
struct facts {
	uint64_t count, bytes;
	uint64_t large_count, large_bytes;
	uint64_t oldest_age_ns, newest_age_ns;
	uint64_t quarter_bytes[QUARTERS];
};

struct builder {
	const struct mt_query *query;
	struct mt_table *table;
	struct mt_rows rows;
	/* of the profile that is being added */
	const struct mt_profile *p;
	uint32_t profile;
	struct mt_profile_clock clock;
	uint64_t born_ns; /* of a block with this birth; 0: not known */
	uint32_t born;
	uint64_t quarter_ns; /* of the run */
	uint64_t *hash;
	struct facts *facts; /* by site; element 0: blocks without a site */
	bool *is_left_out;   /* by site: suppressed, or of a module that is not wanted */
};

static bool is_heap_wanted(const struct builder *b, uint32_t heap)
{
	return b->query->heap == MT_HEAP_ANY || b->query->heap == heap;
}

static bool is_stopped(const struct builder *b)
{
	return b->query->stop && *b->query->stop;
}

/* Neighbours are mostly of the same time. */
static uint64_t block_born(struct builder *b, const struct mt_profile_block *block)
{
	if (block->born != b->born || !b->born_ns) {
		b->born = block->born;
		b->born_ns = mt_profile_clock_at(&b->clock, block->born);
	}
	return b->born_ns;
}

static uint64_t block_age(struct builder *b, const struct mt_profile_block *block)
{
	uint64_t born_ns = block_born(b, block);

	return b->p->duration_ns > born_ns ? b->p->duration_ns - born_ns : 0;
}

static void add_block(struct builder *b, const struct mt_profile_block *block, struct facts *f)
{
	uint64_t born_ns = block_born(b, block), age_ns = block_age(b, block);
	uint64_t quarter = b->quarter_ns ? born_ns / b->quarter_ns : 0;

	f->oldest_age_ns = MT_MAX(f->oldest_age_ns, age_ns);
	f->newest_age_ns = f->count ? MT_MIN(f->newest_age_ns, age_ns) : age_ns;
	f->count++;
	f->bytes += block->size;
	f->quarter_bytes[MT_MIN(quarter, (uint64_t)QUARTERS - 1)] += block->size;
	if (block->size >= MT_LARGE_BLOCK_BYTES) {
		f->large_count++;
		f->large_bytes += block->size;
	}
}

static bool is_block_wanted(struct builder *b, const struct mt_profile_block *block)
{
	return is_heap_wanted(b, block->heap) &&
	       (!b->query->min_age_ns || block_age(b, block) >= b->query->min_age_ns);
}

static void fill_facts(struct builder *b)
{
	for (uint64_t i = 0; i < b->p->blocks; i++) {
		const struct mt_profile_block *block = &b->p->block[i];

		if (is_block_wanted(b, block))
			add_block(b, block, &b->facts[b->p->cell[block->cell].site]);
	}
}

static bool is_growing(const struct mt_profile *p, const struct facts *f)
{
	if (p->duration_ns < GROWING_RUN_NS || f->count < GROWING_BLOCKS)
		return false;
	for (int i = 0; i < QUARTERS; i++)
		if (f->quarter_bytes[i] < f->bytes / GROWING_SHARE || !f->quarter_bytes[i])
			return false;
	return true;
}

static void add_facts(const struct mt_profile *p, const struct facts *f, struct mt_row *row)
{
	if (f->count) {
		row->newest_age_ns = row->live_count ? MT_MIN(row->newest_age_ns, f->newest_age_ns)
						     : f->newest_age_ns;
		row->oldest_age_ns = MT_MAX(row->oldest_age_ns, f->oldest_age_ns);
	}
	row->live_count += f->count;
	row->live_bytes += f->bytes;
	row->large_count += f->large_count;
	row->large_bytes += f->large_bytes;
	row->recent_bytes += f->quarter_bytes[2] + f->quarter_bytes[3];
	row->is_growing |= is_growing(p, f);
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
	uint64_t part[3] = {b->hash[top], s->call, s->heap};
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

	if (!row)
		return -ENOMEM;
	add_counts(&s->counts, row);
	add_facts(b->p, &b->facts[site], row);
	row->peak_bytes += s->peak_bytes;
	row->peak_bound_bytes += s->peak_bound_bytes;
	row->at_peak_bytes += s->at_peak_bytes;
	row->at_peak_count += s->at_peak_count;
	add_example(b, site,
		    b->query->measure == MT_MEASURE_LIVE ? b->facts[site].bytes : s->counts.bytes,
		    row);
	return 0;
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
	if (b->is_left_out[0] || !is_heap_wanted(b, 0) || (!counts.allocs && !b->facts[0].count))
		return 0;
	row = get_labelled(b, "(site not recorded: left out by options, or tables were full)");
	if (!row)
		return -ENOMEM;
	row->is_unplaced = true;
	add_counts(&counts, row);
	add_facts(b->p, &b->facts[0], row);
	return 0;
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

/* Live blocks one by one: cells cannot tell old blocks from young ones. */
static int add_thread_blocks(struct builder *b)
{
	struct facts *facts = mt_alloc_zero(b->p->thread_count, sizeof(*facts));
	int err = facts ? 0 : -ENOMEM;

	for (uint64_t i = 0; i < b->p->blocks && !err && !is_stopped(b); i++) {
		const struct mt_profile_block *block = &b->p->block[i];
		const struct mt_profile_cell *c = &b->p->cell[block->cell];

		if (!b->is_left_out[c->site] && is_block_wanted(b, block))
			add_block(b, block, &facts[c->thread]);
	}
	for (uint32_t i = 0; i < b->p->thread_count && !err; i++) {
		struct mt_row *row = facts[i].count ? get_thread_row(b, i) : NULL;

		if (row)
			add_facts(b->p, &facts[i], row);
		else if (facts[i].count)
			err = -ENOMEM;
	}
	free(facts);
	return err;
}

static int add_threads(struct builder *b)
{
	for (uint32_t i = 1; i < b->p->cell_count && !is_stopped(b); i++) {
		const struct mt_profile_cell *c = &b->p->cell[i];
		struct mt_row *row;

		if (!c->site || c->site >= b->p->site_count || b->is_left_out[c->site] ||
		    !is_heap_wanted(b, b->p->site[c->site].heap))
			continue;
		row = get_thread_row(b, c->thread);
		if (!row)
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

static int add_sizes(struct builder *b)
{
	struct facts facts[MT_HIST_BUCKETS] = {0};
	uint64_t allocs[MT_HIST_BUCKETS] = {0}, missing = 0;

	for (uint64_t i = 0; i < b->p->blocks && !is_stopped(b); i++) {
		const struct mt_profile_block *block = &b->p->block[i];

		if (!b->is_left_out[b->p->cell[block->cell].site] && is_block_wanted(b, block))
			add_block(b, block, &facts[size_bucket(block->size)]);
	}
	for (uint32_t i = 1; i < b->p->site_count && !is_stopped(b); i++)
		if (!b->is_left_out[i] && is_heap_wanted(b, b->p->site[i].heap))
			mt_profile_add_sizes(b->p, i, allocs, &missing);
	for (uint32_t i = 0; i < MT_HIST_BUCKETS; i++) {
		struct mt_row *row;

		if (!facts[i].count && !allocs[i])
			continue;
		row = get_size_row(b, i);
		if (!row)
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
		    !b->facts[i].count)
			continue;
		if (!q->is_suppressed(q->suppress_context, b->p, i))
			continue;
		b->is_left_out[i] = true;
		b->table->suppressed_sites++;
		b->table->suppressed_count += b->facts[i].count;
		b->table->suppressed_bytes += b->facts[i].bytes;
	}
}

/* Whether the profile has anything of a heap: most have no custom heap, and no mapping. */
static bool may_have(const struct mt_profile *p, uint32_t heap)
{
	if (!heap || heap == MT_HEAP_ANY)
		return true;
	return heap < p->heap_count && (p->heap[heap].counts.allocs || p->heap[heap].live_count);
}

static int add_profile(struct builder *b)
{
	int err;

	if (!may_have(b->p, b->query->heap))
		return 0;
	b->clock = b->p->clock;
	b->born_ns = 0;
	b->quarter_ns = b->p->duration_ns / QUARTERS;
	b->hash = mt_callstack_hashes(b->p, b->query->match_names ? b->query->names : NULL);
	b->facts = mt_alloc_zero(b->p->site_count + 1u, sizeof(*b->facts));
	b->is_left_out = mt_alloc_zero(b->p->site_count + 1u, sizeof(*b->is_left_out));
	if (!b->hash || !b->facts || !b->is_left_out)
		return -ENOMEM;
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

static void finish(struct builder *b)
{
	struct mt_table *t = b->table;
	size_t kept = 0;

	for (size_t i = 0; i < b->rows.count; i++) {
		struct mt_row *row = &b->rows.row[i];

		take_measure(&t->query, row);
		if (!row->count && !row->bytes)
			continue;
		t->count += row->count;
		t->bytes += row->bytes;
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

static bool is_known(const struct mt_query *q)
{
	bool is_by_block = q->by == MT_BY_SIZE || q->by == MT_BY_THREAD;

	if (q->measure == MT_MEASURE_PEAK)
		return !is_by_block;
	return q->measure != MT_MEASURE_TEMPORARY || q->by != MT_BY_SIZE;
}

int mt_table_build(const struct mt_profile *const *profiles, uint32_t count,
		   const struct mt_query *query, struct mt_table **ret_table)
{
	struct builder b = {.query = query};
	int err = 0;

	if (!is_known(query))
		return -EINVAL;
	b.table = mt_alloc_zero(1, sizeof(*b.table));
	if (!b.table)
		return -ENOMEM;
	b.table->query = *query;
	b.table->arena = b.rows.arena = mt_arena_new();
	if (!b.table->arena)
		err = -ENOMEM;
	for (uint32_t i = 0; i < count && !err && !is_stopped(&b); i++) {
		b.p = profiles[i];
		b.profile = i;
		err = add_profile(&b);
		free(b.hash);
		free(b.facts);
		free(b.is_left_out);
		b.hash = NULL;
		b.facts = NULL;
		b.is_left_out = NULL;
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
