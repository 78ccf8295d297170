/* SPDX-License-Identifier: MIT */
/*
 * State file to profile. Tables are copied in the order users before what they name (blocks,
 * counters, sites, frames, modules, strings): the writer makes them in the other order, so what was
 * copied finds what it names although the process runs on. Invariant: no index goes into the
 * profile unchecked.
 */
#include "formats/mtk_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "base/units.h"
#include "formats/mtk_fill.h"
#include "formats/mtk_look.h"

static const char *const damage_text[MT_MTK_DAMAGES] = {
	[MT_MTK_BAD_STRING] = "names or paths that are not in the file",
	[MT_MTK_BAD_MODULE] = "stack frames in a module that is not in the file",
	[MT_MTK_BAD_PARENT] = "stack frames without a way to the outermost frame",
	[MT_MTK_BAD_SITE_NODE] = "sites with a stack that is not in the file",
	[MT_MTK_BAD_SITE_HEAP] = "sites or blocks of a heap that is not in the file",
	[MT_MTK_BAD_SITE_LABEL] = "sites with a label that is not in the file",
	[MT_MTK_BAD_CELL_SITE] = "counters of a site that is not in the file",
	[MT_MTK_BAD_CELL_THREAD] = "counters of a thread that is not in the file",
	[MT_MTK_BAD_BLOCK_CELL] = "live blocks with counters that are not in the file",
	[MT_MTK_BAD_HIST] = "counters with a size histogram that is not in the file",
	[MT_MTK_BAD_THREAD] = "threads whose counters are not in the file",
	[MT_MTK_BAD_REGIME] = "ways of sampling that are not in the file or cannot be",
	[MT_MTK_BAD_SAMPLED] = "sampled counters whose estimates are not in the file",
	[MT_MTK_BAD_ERROR] =
		"memory errors that are of no known kind, or name what is not in the file",
};

enum { PEAK_TRIES = 3, BLOCK_TRIES = 4 };

static void reader_done(struct mt_mtk_reader *rd)
{
	free(rd->raw.cell);
	free(rd->raw.hist);
	free(rd->raw.site);
	free(rd->raw.thread);
	free(rd->raw.module);
	free(rd->raw.node);
	free(rd->raw.heap);
	free(rd->raw.label);
	free(rd->raw.regime);
	free(rd->raw.sampled);
	free(rd->raw.stats);
	free(rd->raw.big);
	free(rd->raw.change);
	free(rd->raw.error);
	free(rd->raw.damage);
	free(rd->block);
	free(rd->block_key);
	free(rd->block_address);
	free(rd->block_mark);
	mt_mtk_stale_done(&rd->stale);
	free(rd->lost);
	mt_profile_free(rd->profile);
}
MT_AUTO_DEFINE_INPLACE(reader, struct mt_mtk_reader, reader_done)

/* ---- tables ---- */

/* Says once a region why it is not whole. */
static void warn_region(struct mt_mtk_reader *rd, const struct mt_mtk_region *r, int walk_result)
{
	uint64_t have = r->count, claim = r->used;
	const char *name = mt_mtk_kind_name(r->kind);
	uint64_t bit = 1ull << (r->kind % 64);
	if (rd->warned_kinds & bit)
		return;
	if (r->fault == MT_MTK_FAULT_ELEMENT)
		mt_profile_warn(rd->profile,
				"the table of %s is left out: its elements have %u bytes", name,
				r->elem_bytes);
	else if (r->fault == MT_MTK_FAULT_OFFSET)
		mt_profile_warn(rd->profile, "the table of %s is left out: it begins at byte %llu",
				name, (unsigned long long)r->offset);
	else if (r->fault == MT_MTK_FAULT_CUT || walk_result == -ENODATA)
		mt_profile_warn(rd->profile,
				"the file is cut: of %s elements of the table of %s %s are there",
				MT_COUNT(claim), name, MT_COUNT(have));
	else if (r->fault == MT_MTK_FAULT_EMPTY)
		mt_profile_warn(
			rd->profile,
			"the table of %s claims %s elements in a file that stores far fewer", name,
			MT_COUNT(claim));
	else if (walk_result)
		mt_profile_warn(rd->profile, "the table of %s cannot be read: %s", name,
				mt_err_text_of(walk_result));
	else if (!rd->moving && claim - have > r->refused && r->kind)
		mt_profile_warn(rd->profile, "of %s elements of the table of %s %s were stored",
				MT_COUNT(claim), name, MT_COUNT(have));
	else
		return;
	rd->warned_kinds |= bit;
}

struct table {
	uint8_t *to;
	uint32_t elem_bytes, stride;
};

static int copy_run(void *user, const void *elems, uint64_t first, uint64_t count)
{
	const struct table *t = user;
	const uint8_t *from = elems;
	if (t->stride == t->elem_bytes) {
		memcpy(t->to + first * t->elem_bytes, from, count * t->elem_bytes);
		return 0;
	}
	for (uint64_t i = 0; i < count; i++)
		memcpy(t->to + (first + i) * t->elem_bytes, from + i * t->stride, t->elem_bytes);
	return 0;
}

/*
 * A region as a new heap block of at least one element (zeroed where the file has none), its count
 * of elements, at least 1, in *ret_count. NULL without memory; everything else that goes wrong
 * becomes a warning and zeros.
 */
static void *load_table_upto(struct mt_mtk_reader *rd, uint32_t kind, uint32_t max,
			     uint32_t *ret_count)
{
	mt_mtk_source_refresh(&rd->source, kind);
	const struct mt_mtk_region *r = mt_mtk_source_region(&rd->source, kind);
	struct mt_mtk_region bounded = *r;
	struct table t = {.elem_bytes = mt_mtk_elem_bytes(kind), .stride = r->elem_bytes};
	bounded.count = MT_MIN(r->count, max);
	/* one more: a table is never empty, and strings get a NUL behind the last */
	t.to = mt_alloc_zero((size_t)bounded.count + 1, t.elem_bytes);
	if (!t.to)
		return NULL;
	int walk = mt_mtk_source_walk(&rd->source, &bounded, copy_run, &t);
	if (walk == -ENOMEM) {
		free(t.to);
		return NULL;
	}
	warn_region(rd, r, walk);
	*ret_count = MT_MAX((uint32_t)bounded.count, 1u);
	return t.to;
}

static void *load_table(struct mt_mtk_reader *rd, uint32_t kind, uint32_t *ret_count)
{
	return load_table_upto(rd, kind, UINT32_MAX - 1, ret_count);
}

/* ---- blocks ---- */

struct block_walk {
	struct mt_mtk_reader *rd;
	const struct mt_mtk_region *region;
};

/* Of a running process: reads an element again until two readings agree. Keeps the last one. */
static void settle(const struct block_walk *w, uint64_t number, void *elem, uint32_t bytes)
{
	uint8_t again[sizeof(struct mt_state_large)];
	uint64_t at = w->region->offset + number * w->region->elem_bytes;
	for (int i = 0; w->rd->moving && i < BLOCK_TRIES; i++) {
		if (mt_mtk_source_copy(&w->rd->source, again, bytes, at) != bytes)
			return;
		if (!memcmp(elem, again, bytes))
			return;
		memcpy(elem, again, bytes);
	}
}

/* An element of either table of blocks; both begin with the address. */
union block_elem {
	uint64_t place;
	struct mt_state_live live;
	struct mt_state_large large;
};

#define BLOCK_SIZE_MAX ((1ull << 48) - 1) /* more than a process can address */

static struct mt_profile_block block_of(const union block_elem *e, uint32_t kind)
{
	if (kind == MT_REGION_LIVE)
		return (struct mt_profile_block){
			.size = e->live.size, .born = e->live.unit, .cell = e->live.cell};
	return (struct mt_profile_block){
		.size = MT_MIN(e->large.size, BLOCK_SIZE_MAX),
		.born = e->large.unit,
		.cell = e->large.cell,
		.heap = MT_MIN(e->large.heap, (uint32_t)UINT16_MAX), /* no heap's number */
	};
}

/* Names the block among all that the process ever has: its address and when it was made. */
static uint64_t key_of(const union block_elem *e, uint32_t kind)
{
	uint32_t unit = kind == MT_REGION_LIVE ? e->live.unit : e->large.unit;
	uint32_t sequence = kind == MT_REGION_LIVE ? e->live.sequence : e->large.sequence;
	uint64_t x = e->place * 0x9e3779b97f4a7c15u ^ ((uint64_t)unit << 32 | sequence);
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	x = (x ^ x >> 32) * 0xd6e8feb86659fd93u;
	return x ^ x >> 32;
}

static int visit_large(void *user, const void *elems, uint64_t first, uint64_t count)
{
	const struct block_walk *w = user;
	int r = 0;
	for (uint64_t i = 0; i < count && !r; i++) {
		struct mt_state_large l;
		memcpy(&l, (const uint8_t *)elems + i * w->region->elem_bytes, sizeof(l));
		if (first + i)
			r = mt_mtk_stale_note_large(&w->rd->stale, &l);
	}
	return r;
}

/* 1: the block is to be left out. */
static int is_stale(struct mt_mtk_reader *rd, uint32_t kind, const union block_elem *e)
{
	if (kind == MT_REGION_LARGE)
		return mt_mtk_stale_is_gone(&rd->stale, &e->large);
	return mt_mtk_stale_note_small(&rd->stale, e->place);
}

static int grow(uint64_t **list, size_t *capacity, size_t count)
{
	uint64_t *grown = mt_alloc_grow(*list, capacity, count, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	*list = grown;
	return 0;
}

static int grow_marks(struct mt_mtk_reader *rd, size_t count)
{
	uint8_t *grown = mt_alloc_grow(rd->block_mark, &rd->mark_cap, count, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	rd->block_mark = grown;
	return 0;
}

/* Of the block that was read last. */
static uint8_t mark_of(struct mt_mtk_reader *rd, uint64_t place)
{
	return mt_mtk_look_has(rd, place, rd->block[rd->blocks].born) ? MT_BLOCK_LOST
								      : MT_BLOCK_HELD;
}

static int visit_blocks(void *user, const void *elems, uint64_t first, uint64_t count)
{
	const struct block_walk *w = user;
	struct mt_mtk_reader *rd = w->rd;
	uint32_t kind = w->region->kind, bytes = mt_mtk_elem_bytes(kind);
	bool has_marks = rd->raw.header.look_result == MT_LOOK_MADE;
	struct mt_profile_block *grown =
		mt_alloc_grow(rd->block, &rd->block_cap, rd->blocks + count, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	rd->block = grown;
	if (rd->has_keys && grow(&rd->block_key, &rd->key_cap, rd->blocks + count))
		return -ENOMEM;
	if (rd->has_addresses && grow(&rd->block_address, &rd->address_cap, rd->blocks + count))
		return -ENOMEM;
	if (has_marks && grow_marks(rd, rd->blocks + count))
		return -ENOMEM;
	for (uint64_t i = 0; i < count; i++) {
		union block_elem e;
		memcpy(&e, (const uint8_t *)elems + i * w->region->elem_bytes, bytes);
		if (!e.place || !(first + i))
			continue;
		settle(w, first + i, &e, bytes);
		int stale = e.place ? is_stale(rd, kind, &e) : 0;
		if (stale < 0)
			return stale;
		if (!e.place || stale)
			continue;
		if (rd->has_keys)
			rd->block_key[rd->blocks] = key_of(&e, kind);
		if (rd->has_addresses)
			rd->block_address[rd->blocks] = e.place;
		rd->block[rd->blocks] = block_of(&e, kind);
		if (has_marks)
			rd->block_mark[rd->blocks] = mark_of(rd, e.place);
		rd->blocks++;
	}
	return 0;
}

static int note_large(struct mt_mtk_reader *rd)
{
	struct block_walk w = {rd, mt_mtk_source_region(&rd->source, MT_REGION_LARGE)};
	mt_mtk_source_refresh(&rd->source, MT_REGION_LARGE);
	return mt_mtk_source_walk(&rd->source, w.region, visit_large, &w) == -ENOMEM ? -ENOMEM : 0;
}

/* What a look has found, before the blocks that are compared with it. */
static int load_unreached(struct mt_mtk_reader *rd)
{
	uint32_t count;
	struct mt_state_unreached *all =
		load_table_upto(rd, MT_REGION_UNREACHED, MT_UNREACHED_MAX, &count);
	if (!all)
		return -ENOMEM;
	mt_mtk_look_take(rd, all, count);
	return 0;
}

static int load_blocks(struct mt_mtk_reader *rd, uint32_t kind)
{
	mt_mtk_source_refresh(&rd->source, kind);
	struct block_walk w = {rd, mt_mtk_source_region(&rd->source, kind)};
	int walk = mt_mtk_source_walk(&rd->source, w.region, visit_blocks, &w);
	if (walk == -ENOMEM)
		return walk;
	warn_region(rd, w.region, walk);
	return 0;
}

/* ---- strings ---- */

static int load_strings(struct mt_mtk_reader *rd)
{
	char *table = load_table(rd, MT_REGION_STRINGS, &rd->strings_len);
	if (!table)
		return -ENOMEM;
	table[0] = 0;
	rd->strings = table;
	int r = mt_arena_adopt(rd->profile->arena, table);
	if (r)
		free(table);
	return r;
}

/* ---- the whole ---- */

bool mt_mtk_process_alive(const struct mt_state_header *h)
{
	char path[64];
	mt_auto(free) char *text = NULL;
	size_t len;
	if (h->end_kind != MT_END_RUNNING || h->pid <= 0 || !mt_mtk_time_is_own(h))
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", h->pid);
	if (mt_file_read(path, 65536, &text, &len, NULL))
		return false;
	char *s = strrchr(text, ')'); /* the name before it may hold anything */
	if (!s || s[1] != ' ' || s[2] == 'Z' || s[2] == 'X')
		return false;
	s++; /* field 3 follows this blank; the start time is field 22 */
	for (int field = 3; s && field < 22; field++)
		s = strchr(s + 1, ' ');
	return s && (!h->proc_start || strtoull(s + 1, NULL, 10) == h->proc_start);
}

static uint64_t count_events(const struct mt_state_thread *t, uint32_t count)
{
	uint64_t sum = 0;
	for (uint32_t i = 1; i < count; i++)
		sum += t[i].totals[MT_CLASS_MALLOC].allocs + t[i].totals[MT_CLASS_MALLOC].frees;
	return sum;
}

static uint64_t count_stats(const struct mt_state_stats *s, uint32_t count)
{
	uint64_t sum = 0;
	for (uint32_t i = 1; i < count; i++)
		for (uint32_t k = 0; k < MT_SIZE_BUCKETS; k++)
			sum += s[i].size_class[k].allocs + s[i].size_class[k].frees;
	return sum;
}

/* Events of all threads so far; rows that are not there count as none. */
static int events_so_far(struct mt_mtk_reader *rd, uint64_t *ret_events)
{
	uint32_t threads, stats;
	mt_auto(free) struct mt_state_thread *t = load_table(rd, MT_REGION_THREADS, &threads);
	mt_auto(free) struct mt_state_stats *s =
		load_table_upto(rd, MT_REGION_STATS, threads, &stats);
	if (!t || !s)
		return -ENOMEM;
	*ret_events = count_events(t, threads) + count_stats(s, stats);
	return 0;
}

/* The cells with the header that tells their peak epoch; again while the peak moves, within bounds.
 */
static int load_cells(struct mt_mtk_reader *rd)
{
	for (int i = 0;; i++) {
		struct mt_state_header before = rd->raw.header;
		free(rd->raw.cell);
		rd->raw.cell = load_table(rd, MT_REGION_CELLS, &rd->raw.cell_count);
		free(rd->raw.sampled);
		rd->raw.sampled = load_table_upto(rd, MT_REGION_SAMPLED, rd->raw.cell_count,
						  &rd->raw.sampled_count);
		if (!rd->raw.cell || !rd->raw.sampled)
			return -ENOMEM;
		if (!rd->moving || mt_mtk_source_header(&rd->source, &rd->raw.header) ||
		    rd->raw.header.peak_epoch == before.peak_epoch || i == PEAK_TRIES)
			return 0;
	}
}

/* What is there only in other modes than full, and names threads and strings. */
static int load_modes(struct mt_mtk_reader *rd)
{
	struct mt_mtk_raw *raw = &rd->raw;
	raw->big = load_table(rd, MT_REGION_BIG, &raw->big_count);
	raw->change = load_table(rd, MT_REGION_CHANGES, &raw->change_count);
	raw->error = load_table_upto(rd, MT_REGION_ERRORS, MT_ERRORS_MAX, &raw->error_count);
	/* the writer fills the bytes before the error that names them */
	raw->damage = load_table_upto(rd, MT_REGION_DAMAGE, MT_ERRORS_MAX, &raw->damage_count);
	return raw->big && raw->change && raw->error && raw->damage ? 0 : -ENOMEM;
}

/* The other tables, in the order users before what they name. */
static int load_named(struct mt_mtk_reader *rd)
{
	struct mt_mtk_raw *raw = &rd->raw;
	int r = load_modes(rd);
	if (r)
		return r;
	raw->thread = load_table(rd, MT_REGION_THREADS, &raw->thread_count);
	raw->stats = load_table_upto(rd, MT_REGION_STATS, raw->thread_count, &raw->stats_count);
	raw->hist = load_table(rd, MT_REGION_HISTS, &raw->hist_count);
	raw->site = load_table(rd, MT_REGION_SITES, &raw->site_count);
	raw->node = load_table(rd, MT_REGION_NODES, &raw->node_count);
	raw->module = load_table(rd, MT_REGION_MODULES, &raw->module_count);
	raw->heap = load_table(rd, MT_REGION_HEAPS, &raw->heap_count);
	raw->label = load_table(rd, MT_REGION_LABELS, &raw->label_count);
	raw->regime = load_table(rd, MT_REGION_REGIMES, &raw->regime_count);
	if (!raw->thread || !raw->hist || !raw->site || !raw->node || !raw->module || !raw->heap ||
	    !raw->label || !raw->regime || !raw->stats)
		return -ENOMEM;
	return load_strings(rd);
}

/* Copies everything. *ret_in_flight: events that some tables may have and others not. */
static int load_raw(struct mt_mtk_reader *rd, uint64_t *ret_in_flight)
{
	uint64_t before = 0;
	int r = rd->moving ? events_so_far(rd, &before) : 0;
	/* regimes are made before the first sample */
	rd->has_keys = rd->has_addresses ||
		       mt_mtk_source_region(&rd->source, MT_REGION_REGIMES)->count > 1;
	if (!r)
		r = load_unreached(rd);
	if (!r)
		r = note_large(rd);
	if (!r)
		r = load_blocks(rd, MT_REGION_LIVE);
	if (!r)
		r = load_blocks(rd, MT_REGION_LARGE);
	free(rd->lost);
	rd->lost = NULL;
	if (!r)
		r = load_cells(rd);
	if (!r)
		r = load_named(rd);
	if (r)
		return r;
	/* a thread that ran when the process ended may have been between two stores */
	uint64_t threads = rd->raw.thread_count;
	*ret_in_flight = rd->raw.header.end_kind == MT_END_EXITED && threads <= 2 ? 0 : 2 * threads;
	/* a free whose thread found no room for a counter of its own is in no site */
	*ret_in_flight += rd->raw.header.lost[MT_LOST_SITE_FULL];
	/* the counters hold what was freed out of sight */
	*ret_in_flight += rd->stale.count;
	if (rd->moving)
		*ret_in_flight += count_events(rd->raw.thread, rd->raw.thread_count) +
				  count_stats(rd->raw.stats, rd->raw.stats_count) - before;
	return 0;
}

/* A table that is not read: its empty first element. */
static void *no_table(uint32_t kind, uint32_t *ret_count)
{
	*ret_count = 1;
	return mt_alloc_zero(1, mt_mtk_elem_bytes(kind));
}

/* Only what gives sites their names, users before what they name. */
static int load_raw_stacks(struct mt_mtk_reader *rd)
{
	struct mt_mtk_raw *raw = &rd->raw;
	raw->cell = no_table(MT_REGION_CELLS, &raw->cell_count);
	raw->thread = no_table(MT_REGION_THREADS, &raw->thread_count);
	raw->hist = no_table(MT_REGION_HISTS, &raw->hist_count);
	raw->sampled = no_table(MT_REGION_SAMPLED, &raw->sampled_count);
	raw->stats = no_table(MT_REGION_STATS, &raw->stats_count);
	raw->big = no_table(MT_REGION_BIG, &raw->big_count);
	raw->change = load_table(rd, MT_REGION_CHANGES, &raw->change_count);
	raw->error = no_table(MT_REGION_ERRORS, &raw->error_count);
	raw->damage = no_table(MT_REGION_DAMAGE, &raw->damage_count);
	raw->site = load_table(rd, MT_REGION_SITES, &raw->site_count);
	raw->node = load_table(rd, MT_REGION_NODES, &raw->node_count);
	raw->module = load_table(rd, MT_REGION_MODULES, &raw->module_count);
	raw->heap = load_table(rd, MT_REGION_HEAPS, &raw->heap_count);
	raw->label = load_table(rd, MT_REGION_LABELS, &raw->label_count);
	raw->regime = load_table(rd, MT_REGION_REGIMES, &raw->regime_count);
	if (!raw->cell || !raw->thread || !raw->hist || !raw->site || !raw->node || !raw->module ||
	    !raw->heap || !raw->label || !raw->sampled || !raw->stats || !raw->big ||
	    !raw->change || !raw->error || !raw->damage || !raw->regime)
		return -ENOMEM;
	raw->header.threads_seen = 0; /* none is missed */
	return load_strings(rd);
}

static void warn_all(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	for (unsigned i = 0; i < MT_MTK_DAMAGES; i++)
		if (rd->damage[i])
			mt_profile_warn(p, "%s %s", MT_COUNT(rd->damage[i]), damage_text[i]);
	if (rd->time.damaged)
		mt_profile_warn(p, "the file's clock readings cannot be right and are not used");
	if (rd->time.estimated)
		mt_profile_warn(p,
				"the file has no clock calibration: times and ages are estimates");
	for (uint32_t i = 0; i < rd->source.region_count; i++)
		if (rd->source.region[i].fault == MT_MTK_FAULT_TWICE)
			mt_profile_warn(p, "a second table of %s is left out",
					mt_mtk_kind_name(rd->source.region[i].kind));
}

/* How a process ended that nobody watched. */
static void settle_end(struct mt_mtk_reader *rd, bool own)
{
	static const uint8_t unknown[16];
	struct mt_profile *p = rd->profile;
	if (p->end_kind > MT_END_SNAPSHOT) {
		mt_profile_warn(p, "how the process ended is not known: the file says %u",
				p->end_kind);
		p->end_kind = MT_END_UNKNOWN;
	}
	if (p->end_kind != MT_END_RUNNING || rd->moving || rd->source.data)
		return;
	if (own || memcmp(p->boot_id, unknown, sizeof(unknown)))
		p->end_kind = MT_END_UNKNOWN; /* it is gone, or was on another machine */
}

enum wanted { WANT_ALL, WANT_STACKS };

static int read_source(struct mt_mtk_reader *rd, enum wanted wanted,
		       struct mt_profile **ret_profile)
{
	uint64_t in_flight = 0;
	rd->profile = mt_profile_new();
	if (!rd->profile)
		return -ENOMEM;
	bool own = !rd->source.data && mt_mtk_time_is_own(&rd->source.header);
	rd->moving = own && mt_mtk_process_alive(&rd->source.header);
	rd->raw.header = rd->source.header;
	int r = wanted == WANT_ALL ? load_raw(rd, &in_flight) : load_raw_stacks(rd);
	if (r)
		return r;
	mt_mtk_time_init(&rd->time, &rd->raw.header, own);
	r = mt_mtk_fill(rd);
	if (!r)
		r = mt_mtk_sum(rd->profile, &rd->raw);
	if (r)
		return r;
	settle_end(rd, own);
	warn_all(rd);
	if (wanted == WANT_ALL)
		mt_profile_check(rd->profile, in_flight);
	*ret_profile = rd->profile;
	rd->profile = NULL;
	return 0;
}

int mt_mtk_read_fd(int fd, const char *name, struct mt_profile **ret_profile, struct mt_err *err)
{
	mt_auto(reader) struct mt_mtk_reader rd = {.profile = NULL};
	int r = mt_mtk_source_fd(&rd.source, fd, name, err);
	if (r)
		return r;
	r = read_source(&rd, WANT_ALL, ret_profile);
	return r ? mt_err_set_errno(err, r, "cannot read '%s'", name) : 0;
}

int mt_mtk_read_addresses(const char *path, struct mt_profile **ret_profile, struct mt_err *err)
{
	mt_auto(close) int fd = mt_mtk_open(path, err);
	mt_auto(reader) struct mt_mtk_reader rd = {.has_addresses = true};
	if (fd < 0)
		return fd;
	int r = mt_mtk_source_fd(&rd.source, fd, path, err);
	if (r)
		return r;
	r = read_source(&rd, WANT_ALL, ret_profile);
	return r ? mt_err_set_errno(err, r, "cannot read '%s'", path) : 0;
}

int mt_mtk_read_stacks(const char *path, struct mt_profile **ret_profile, struct mt_err *err)
{
	mt_auto(close) int fd = mt_mtk_open(path, err);
	mt_auto(reader) struct mt_mtk_reader rd = {.profile = NULL};
	if (fd < 0)
		return fd;
	int r = mt_mtk_source_fd(&rd.source, fd, path, err);
	if (r)
		return r;
	r = read_source(&rd, WANT_STACKS, ret_profile);
	return r ? mt_err_set_errno(err, r, "cannot read '%s'", path) : 0;
}

int mt_mtk_read_memory(const void *data, size_t len, const char *name,
		       struct mt_profile **ret_profile, struct mt_err *err)
{
	mt_auto(reader) struct mt_mtk_reader rd = {.profile = NULL};
	int r = mt_mtk_source_memory(&rd.source, data, len, name, err);
	if (r)
		return r;
	r = read_source(&rd, WANT_ALL, ret_profile);
	return r ? mt_err_set_errno(err, r, "cannot read '%s'", name) : 0;
}

int mt_mtk_read(const char *path, struct mt_profile **ret_profile, struct mt_err *err)
{
	mt_auto(close) int fd = mt_mtk_open(path, err);
	if (fd < 0)
		return fd;
	return mt_mtk_read_fd(fd, path, ret_profile, err);
}

int mt_mtk_read_header_fd(int fd, const char *name, struct mt_state_header *ret_header,
			  struct mt_err *err)
{
	struct mt_mtk_source s;
	int r = mt_mtk_source_fd(&s, fd, name, err);
	if (r)
		return r;
	*ret_header = s.header;
	return 0;
}

int mt_mtk_read_header(const char *path, struct mt_state_header *ret_header, struct mt_err *err)
{
	mt_auto(close) int fd = mt_mtk_open(path, err);
	if (fd < 0)
		return fd;
	return mt_mtk_read_header_fd(fd, path, ret_header, err);
}

int mt_mtk_read_string(const char *path, uint32_t offset, char *text, size_t cap,
		       struct mt_err *err)
{
	struct mt_mtk_source s;
	mt_auto(close) int fd = mt_mtk_open(path, err);
	if (fd < 0)
		return fd;
	int r = mt_mtk_source_fd(&s, fd, path, err);
	if (r)
		return r;
	const struct mt_mtk_region *strings = mt_mtk_source_region(&s, MT_REGION_STRINGS);
	text[0] = 0;
	if (!offset || offset >= strings->count)
		return 0;
	size_t len = (size_t)MT_MIN((uint64_t)cap - 1, strings->count - offset);
	int64_t n = mt_mtk_source_copy(&s, text, len, strings->offset + offset);
	if (n < 0)
		return mt_err_set_errno(err, (int)n, "cannot read '%s'", path);
	text[n] = 0;
	return 0;
}
