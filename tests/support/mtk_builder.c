/* SPDX-License-Identifier: MIT */
/* State files for tests. Follows the rules for writers in docs/formats/mtk.md, slowly and plainly.
 */
#include "support/mtk_builder.h"

#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Kinds up to LABELS are in every file; those behind it only when something was added to them. */
enum { KINDS = MT_REGION_UNREACHED + 1, KINDS_ALWAYS = MT_REGION_LABELS + 1, UNIT_SHIFT = 21 };

static const uint32_t elem_bytes[KINDS] = {
	[MT_REGION_STRINGS] = 1,
	[MT_REGION_MODULES] = sizeof(struct mt_state_module),
	[MT_REGION_THREADS] = sizeof(struct mt_state_thread),
	[MT_REGION_NODES] = sizeof(struct mt_state_node),
	[MT_REGION_SITES] = sizeof(struct mt_state_site),
	[MT_REGION_CELLS] = sizeof(struct mt_state_cell),
	[MT_REGION_HISTS] = sizeof(struct mt_state_hist),
	[MT_REGION_LIVE] = sizeof(struct mt_state_live),
	[MT_REGION_LARGE] = sizeof(struct mt_state_large),
	[MT_REGION_HEAPS] = sizeof(struct mt_state_heap),
	[MT_REGION_LABELS] = sizeof(struct mt_state_label),
	[MT_REGION_STATS] = sizeof(struct mt_state_stats),
	[MT_REGION_BIG] = sizeof(struct mt_state_big),
	[MT_REGION_REGIMES] = sizeof(struct mt_state_regime),
	[MT_REGION_SAMPLED] = sizeof(struct mt_state_sampled),
	[MT_REGION_CHANGES] = sizeof(struct mt_state_change),
	[MT_REGION_REQUEST] = 1,
	[MT_REGION_ERRORS] = sizeof(struct mt_state_error),
	[MT_REGION_DAMAGE] = sizeof(struct mt_state_damage),
	[MT_REGION_UNREACHED] = sizeof(struct mt_state_unreached),
};

struct table {
	uint8_t *data;
	uint32_t count;
};

struct mtk_builder {
	struct mt_state_header header;
	int64_t step; /* see mtk_builder_publish_in_steps() */
	struct table table[KINDS];
};

static void *must(void *p)
{
	if (!p)
		abort();
	return p;
}

uint32_t mtk_builder_add(struct mtk_builder *b, uint32_t kind, const void *elem)
{
	struct table *t = &b->table[kind];
	uint32_t size = elem_bytes[kind];
	t->data = must(realloc(t->data, ((size_t)t->count + 1) * size));
	memcpy(t->data + (size_t)t->count * size, elem, size);
	return t->count++;
}

void *mtk_builder_at(struct mtk_builder *b, uint32_t kind, uint32_t number)
{
	return b->table[kind].data + (size_t)number * elem_bytes[kind];
}

uint32_t mtk_builder_count(struct mtk_builder *b, uint32_t kind)
{
	return b->table[kind].count;
}

struct mt_state_header *mtk_builder_header(struct mtk_builder *b)
{
	return &b->header;
}

uint32_t mtk_builder_string(struct mtk_builder *b, const char *text)
{
	uint32_t offset = b->table[MT_REGION_STRINGS].count;
	do
		mtk_builder_add(b, MT_REGION_STRINGS, text);
	while (*text++);
	return offset;
}

uint32_t mtk_builder_module(struct mtk_builder *b, uint64_t lo, uint64_t hi, const char *path)
{
	struct mt_state_module m = {
		.lo = lo,
		.hi = hi,
		.bias = lo,
		.path_string = mtk_builder_string(b, path),
		.build_id_bytes = 20,
		.file_dev = 1,
		.file_inode = lo >> 12,
	};
	for (unsigned i = 0; i < 20; i++)
		m.build_id[i] = (uint8_t)(i + path[0]);
	return mtk_builder_add(b, MT_REGION_MODULES, &m);
}

uint32_t mtk_builder_thread(struct mtk_builder *b, uint32_t tid, const char *name)
{
	struct mt_state_thread t = {.tid = tid, .state = 1};
	t.start_unit = (uint32_t)b->header.now_unit;
	snprintf((char *)t.name, sizeof(t.name), "%s", name);
	b->header.threads_seen++;
	return mtk_builder_add(b, MT_REGION_THREADS, &t);
}

uint32_t mtk_builder_node(struct mtk_builder *b, uint64_t pc, uint32_t parent, uint32_t module)
{
	struct mt_state_node n = {.pc = pc, .parent = parent, .meta = module};
	return mtk_builder_add(b, MT_REGION_NODES, &n);
}

uint32_t mtk_builder_site(struct mtk_builder *b, uint32_t node, uint8_t call)
{
	struct mt_state_site s = {
		.node = node,
		.call = call,
		.first_unit = (uint32_t)b->header.now_unit,
		.hash = node * 0x9e3779b97f4a7c15u + call,
	};
	return mtk_builder_add(b, MT_REGION_SITES, &s);
}

struct mtk_builder *mtk_builder_new(void)
{
	static const uint8_t zeros[sizeof(struct mt_state_thread)];
	struct mtk_builder *b = must(calloc(1, sizeof(*b)));
	b->header = (struct mt_state_header){
		.version_major = MT_STATE_VERSION_MAJOR,
		.version_minor = MT_STATE_VERSION_MINOR,
		.byte_order = MT_STATE_BYTE_ORDER,
		.header_bytes = MT_STATE_HEADER_BYTES,
		.page_bytes = 4096,
		.pointer_bytes = 8,
		.arch = MT_ARCH_X86_64,
		.libc = MT_LIBC_GLIBC,
		.door = MT_DOOR_PRELOAD,
		.mode = MT_MODE_FULL,
		.control = 1,
		.pid = 4242,
		.ppid = 4241,
		.depth = 32,
		.proc_start = 1000,
		.wall_start_ns = 1700000000000000000u,
		.mono_start_ns = 5000000000u,
		.tick_start = 1ull << 40,
		.mono_mark_ns = 5000000000u + 10000 * 1000000ull,
		.tick_mark = (1ull << 40) + (10000ull << UNIT_SHIFT),
		.unit_shift = UNIT_SHIFT,
		.end_kind = MT_END_EXITED,
		.peak_bound_bytes = 65536,
		.peak_epoch = 1,
	};
	memcpy(b->header.magic, MT_STATE_MAGIC, 8);
	for (uint32_t kind = 1; kind < KINDS_ALWAYS; kind++)
		if (kind != MT_REGION_HEAPS)
			mtk_builder_add(b, kind, zeros);
	for (unsigned i = 1; i < MT_NODE_ROOTS; i++)
		mtk_builder_add(b, MT_REGION_NODES, zeros);
	for (unsigned i = 0; i < MT_HEAP_FIRST_CUSTOM; i++)
		mtk_builder_add(b, MT_REGION_HEAPS, zeros);
	mtk_builder_thread(b, 4242, "main");
	return b;
}

void mtk_builder_free(struct mtk_builder *b)
{
	if (!b)
		return;
	for (uint32_t kind = 0; kind < KINDS; kind++)
		free(b->table[kind].data);
	free(b);
}

/* The cell of a site in a thread, made when it is the first event. */
static uint32_t find_cell(struct mtk_builder *b, uint32_t thread, uint32_t site)
{
	for (uint32_t i = 1; i < b->table[MT_REGION_CELLS].count; i++) {
		struct mt_state_cell *c = mtk_builder_at(b, MT_REGION_CELLS, i);
		if (c->site == site && c->thread == thread)
			return i;
	}
	struct mt_state_cell c = {.site = site, .thread = (uint16_t)thread};
	c.at_peak_epoch = b->header.peak_epoch;
	struct mt_state_site *s = mtk_builder_at(b, MT_REGION_SITES, site);
	s->shared = ++s->cell_count > 1;
	return mtk_builder_add(b, MT_REGION_CELLS, &c);
}

static void count_size(struct mtk_builder *b, uint32_t cell, uint64_t size)
{
	struct mt_state_cell *c = mtk_builder_at(b, MT_REGION_CELLS, cell);
	uint32_t bucket = mt_state_size_bucket(size);
	if (!c->size_known) {
		c->size_known = MT_SIZE_ONE;
		c->size_bucket = (uint8_t)bucket;
	} else if (!c->hist && c->size_bucket != bucket) {
		struct mt_state_hist h = {{0}};
		h.count[c->size_bucket] = (uint32_t)c->allocs;
		c->hist = mtk_builder_add(b, MT_REGION_HISTS, &h);
		c->size_known = MT_SIZE_HIST;
	}
	if (c->hist)
		((struct mt_state_hist *)mtk_builder_at(b, MT_REGION_HISTS, c->hist))
			->count[bucket]++;
}

void mtk_builder_publish_in_steps(struct mtk_builder *b, int64_t step)
{
	b->step = step;
}

/* What of `live` is published now: all of it, or 0 when too little is held back. */
static int64_t publish(const struct mtk_builder *b, int64_t live, int64_t *published)
{
	int64_t change = live - *published;
	if (change < b->step && change > -b->step)
		return 0;
	*published = live;
	return change;
}

/* Changes a cell's, its site's, a thread's and the process's live bytes; the heap is the site's. */
static void change_live(struct mtk_builder *b, struct mt_state_cell *c, struct mt_state_thread *t)
{
	struct mt_state_header *h = &b->header;
	struct mt_state_site *s = mtk_builder_at(b, MT_REGION_SITES, c->site);
	int64_t live = (int64_t)(c->bytes - c->freed_bytes);
	c->peak_bytes = MT_MAX(c->peak_bytes, live);
	s->live_published += publish(b, live, &c->published);
	s->peak_published = MT_MAX(s->peak_published, s->live_published);
	if (s->heap)
		return;
	live = (int64_t)(t->totals[MT_CLASS_MALLOC].bytes - t->totals[MT_CLASS_MALLOC].freed_bytes);
	t->peak_bytes = MT_MAX(t->peak_bytes, live);
	h->live_published += publish(b, live, &t->published);
	if (h->live_published > h->peak_bytes) {
		h->peak_bytes = h->live_published;
		h->peak_unit = h->now_unit;
		h->peak_epoch++;
	}
}

/* Before a cell changes: what it was when the peak was. */
static void save_at_peak(struct mtk_builder *b, struct mt_state_cell *c)
{
	if (c->at_peak_epoch == b->header.peak_epoch)
		return;
	c->at_peak_epoch = b->header.peak_epoch;
	c->at_peak_bytes = (int64_t)(c->bytes - c->freed_bytes);
	c->at_peak_count = (int64_t)(c->allocs - c->frees);
}

static enum mt_state_heap_class heap_class(uint32_t heap)
{
	return heap < MT_HEAP_FIRST_CUSTOM ? (enum mt_state_heap_class)heap : MT_CLASS_CUSTOM;
}

/* ---- statistics and samples ---- */

uint32_t mtk_builder_regime(struct mtk_builder *b, uint32_t kind, uint64_t interval_bytes,
			    uint32_t every)
{
	struct mt_state_regime g = {.kind = 0};
	if (!mtk_builder_count(b, MT_REGION_REGIMES))
		mtk_builder_add(b, MT_REGION_REGIMES, &g);
	g.kind = kind;
	g.interval_bytes = interval_bytes;
	g.every = every;
	g.first_unit = (uint32_t)b->header.now_unit;
	return mtk_builder_add(b, MT_REGION_REGIMES, &g);
}

void mtk_builder_change(struct mtk_builder *b, uint32_t what, uint64_t before, uint64_t after)
{
	struct mt_state_change c = {.what = 0};
	if (!mtk_builder_count(b, MT_REGION_CHANGES))
		mtk_builder_add(b, MT_REGION_CHANGES, &c);
	c.what = what;
	c.unit = (uint32_t)b->header.now_unit;
	c.before = before;
	c.after = after;
	c.thread = 1;
	mtk_builder_add(b, MT_REGION_CHANGES, &c);
}

static void *element(struct mtk_builder *b, uint32_t kind, uint32_t number)
{
	static const uint8_t zeros[sizeof(struct mt_state_stats)];
	while (mtk_builder_count(b, kind) <= number)
		mtk_builder_add(b, kind, zeros);
	return mtk_builder_at(b, kind, number);
}

static void publish_stats(struct mtk_builder *b, struct mt_state_stats *s)
{
	struct mt_state_header *h = &b->header;
	s->peak_bytes = MT_MAX(s->peak_bytes, s->live_bytes);
	h->stats_live_published += publish(b, s->live_bytes, &s->published);
	if (h->stats_live_published > h->stats_peak_bytes) {
		h->stats_peak_bytes = h->stats_live_published;
		h->stats_peak_unit = h->now_unit;
	}
}

/* The table is made as long as it must be: seeds of the fuzzer should be short. */
static struct mt_state_big *big_slot(struct mtk_builder *b, uint64_t place, uint64_t now)
{
	for (uint32_t i = 0; i < MT_BIG_WAYS; i++) {
		struct mt_state_big *g =
			element(b, MT_REGION_BIG, (mt_state_big_slot(place) + i) % MT_BIG_SLOTS);
		if (g->place == now)
			return g;
	}
	return NULL;
}

void mtk_builder_count_alloc(struct mtk_builder *b, uint32_t thread, uint64_t address,
			     uint64_t usable)
{
	struct mt_state_stats *s = element(b, MT_REGION_STATS, thread);
	struct mt_state_size_class *c = &s->size_class[mt_state_size_bucket(usable)];
	c->allocs++;
	c->bytes += usable;
	s->live_bytes += (int64_t)usable;
	publish_stats(b, s);
	if (usable < MT_BIG_BYTES)
		return;
	struct mt_state_big *g = must(big_slot(b, address, 0));
	*g = (struct mt_state_big){address, usable, thread, (uint32_t)b->header.now_unit, 0};
}

void mtk_builder_count_free(struct mtk_builder *b, uint32_t thread, uint64_t address,
			    uint64_t usable)
{
	struct mt_state_stats *s = element(b, MT_REGION_STATS, thread);
	struct mt_state_size_class *c = &s->size_class[mt_state_size_bucket(usable)];
	c->frees++;
	c->freed_bytes += usable;
	s->live_bytes -= (int64_t)usable;
	publish_stats(b, s);
	if (usable >= MT_BIG_BYTES)
		((struct mt_state_big *)must(big_slot(b, address, address)))->place = 0;
}

static uint64_t usable_of(uint64_t size)
{
	return MT_ALIGN_UP(size, (uint64_t)16);
}

static double probability(const struct mt_state_regime *g, uint64_t size)
{
	if (g->kind == MT_REGIME_EVERY)
		return 1.0 / g->every;
	if (g->kind != MT_REGIME_BYTES || (double)size >= (double)g->interval_bytes * log(100))
		return 1;
	return -expm1(-(double)MT_MAX(size, (uint64_t)1) / (double)g->interval_bytes);
}

static void add_wide(uint64_t words[2], double v)
{
	unsigned __int128 sum = ((unsigned __int128)words[1] << 64) | words[0];
	sum += (unsigned __int128)(v + 0.5);
	words[0] = (uint64_t)sum;
	words[1] = (uint64_t)(sum >> 64);
}

/* Estimated bytes, whose fraction is carried in *rest. */
static uint64_t carry(double bytes, uint32_t *rest)
{
	uint64_t q16 = (uint64_t)(bytes * 65536 + 0.5) + *rest;
	*rest = (uint32_t)(q16 & 65535);
	return q16 >> 16;
}

static const struct mt_state_regime *regime_of(struct mtk_builder *b, uint32_t cell)
{
	const struct mt_state_cell *c = mtk_builder_at(b, MT_REGION_CELLS, cell);
	const struct mt_state_site *s = mtk_builder_at(b, MT_REGION_SITES, c->site);
	return s->regime ? mtk_builder_at(b, MT_REGION_REGIMES, s->regime) : NULL;
}

/* What the cell's bytes grow by. */
static uint64_t sample_alloc(struct mtk_builder *b, uint32_t thread, uint32_t cell,
			     uint64_t address, uint64_t size)
{
	double p = probability(regime_of(b, cell), size), bytes = (double)size / p;
	struct mt_state_sampled *s = element(b, MT_REGION_SAMPLED, cell);
	s->sample_bytes += size;
	add_wide(s->count_q16, 65536 / p);
	add_wide(s->bytes_variance, (1 - p) * bytes * bytes);
	add_wide(s->count_variance, (1 - p) / p / p);
	mtk_builder_count_alloc(b, thread, address, usable_of(size));
	((struct mt_state_stats *)mtk_builder_at(b, MT_REGION_STATS, thread))->sampled++;
	return carry(bytes, &s->bytes_rest_q16);
}

static uint64_t sample_free(struct mtk_builder *b, uint32_t thread, uint32_t cell, uint64_t address,
			    uint64_t size)
{
	double p = probability(regime_of(b, cell), size);
	struct mt_state_sampled *s = element(b, MT_REGION_SAMPLED, cell);
	s->freed_sample_bytes += size;
	add_wide(s->freed_count_q16, 65536 / p);
	add_wide(s->freed_bytes_variance, (1 - p) * ((double)size / p) * ((double)size / p));
	add_wide(s->freed_count_variance, (1 - p) / p / p);
	mtk_builder_count_free(b, thread, address, usable_of(size));
	return carry((double)size / p, &s->freed_bytes_rest_q16);
}

void mtk_builder_alloc(struct mtk_builder *b, uint32_t thread, uint32_t site, uint64_t address,
		       uint64_t size)
{
	uint32_t cell = find_cell(b, thread, site);
	struct mt_state_thread *t = mtk_builder_at(b, MT_REGION_THREADS, thread);
	uint32_t heap = ((struct mt_state_site *)mtk_builder_at(b, MT_REGION_SITES, site))->heap;
	uint64_t weight = regime_of(b, cell) ? sample_alloc(b, thread, cell, address, size) : size;
	count_size(b, cell, size);
	struct mt_state_cell *c = mtk_builder_at(b, MT_REGION_CELLS, cell);
	save_at_peak(b, c);
	c->allocs++;
	c->bytes += weight;
	t->totals[heap_class(heap)].allocs++;
	t->totals[heap_class(heap)].bytes += weight;
	change_live(b, c, t);
	if (size < MT_LARGE_BYTES && heap == MT_HEAP_MALLOC) {
		struct mt_state_live e = {address, (uint32_t)size, cell,
					  (uint32_t)b->header.now_unit,
					  (uint32_t)t->totals[0].allocs};
		mtk_builder_add(b, MT_REGION_LIVE, &e);
	} else {
		struct mt_state_large e = {address,
					   size,
					   cell,
					   (uint32_t)b->header.now_unit,
					   (uint32_t)t->totals[0].allocs,
					   heap,
					   0};
		mtk_builder_add(b, MT_REGION_LARGE, &e);
	}
}

static void count_free(struct mtk_builder *b, uint32_t thread, uint32_t cell_of_block,
		       uint64_t address, uint64_t size, uint32_t unit)
{
	struct mt_state_cell *from = mtk_builder_at(b, MT_REGION_CELLS, cell_of_block);
	uint32_t site = from->site;
	struct mt_state_thread *t = mtk_builder_at(b, MT_REGION_THREADS, thread);
	uint32_t cell = find_cell(b, thread, site);
	struct mt_state_cell *c = mtk_builder_at(b, MT_REGION_CELLS, cell);
	uint32_t heap = ((struct mt_state_site *)mtk_builder_at(b, MT_REGION_SITES, site))->heap;
	uint64_t weight = regime_of(b, cell) ? sample_free(b, thread, cell, address, size) : size;
	save_at_peak(b, c);
	c->frees++;
	c->freed_bytes += weight;
	c->lifetime[mt_state_life_bucket((uint32_t)b->header.now_unit - unit)]++;
	t->totals[heap_class(heap)].frees++;
	t->totals[heap_class(heap)].freed_bytes += weight;
	change_live(b, c, t);
}

void mtk_builder_dealloc(struct mtk_builder *b, uint32_t thread, uint64_t address)
{
	for (uint32_t i = 1; i < b->table[MT_REGION_LIVE].count; i++) {
		struct mt_state_live *e = mtk_builder_at(b, MT_REGION_LIVE, i);
		if (e->place != address)
			continue;
		e->place = 0;
		count_free(b, thread, e->cell, address, e->size, e->unit);
		return;
	}
	for (uint32_t i = 1; i < b->table[MT_REGION_LARGE].count; i++) {
		struct mt_state_large *e = mtk_builder_at(b, MT_REGION_LARGE, i);
		if (e->place != address)
			continue;
		e->place = 0;
		count_free(b, thread, e->cell, address, e->size, e->unit);
		return;
	}
	((struct mt_state_thread *)mtk_builder_at(b, MT_REGION_THREADS, thread))->unknown_frees++;
}

uint8_t *mtk_builder_bytes(struct mtk_builder *b, size_t *ret_len)
{
	uint64_t end = MT_STATE_HEADER_BYTES;
	uint32_t rows = 0;
	for (uint32_t kind = 1; kind < KINDS; kind++) {
		uint64_t bytes = (uint64_t)b->table[kind].count * elem_bytes[kind];
		if (!bytes)
			continue;
		uint64_t count = b->table[kind].count, at = MT_ALIGN_UP(end, (uint64_t)64);
		b->header.region[rows++] = (struct mt_state_region){
			kind, elem_bytes[kind], at, count, count, bytes, 0,
		};
		end = at + bytes;
	}
	uint8_t *data = must(calloc(1, end));
	memcpy(data, &b->header, sizeof(b->header));
	for (uint32_t i = 0; i < rows; i++)
		memcpy(data + b->header.region[i].offset, b->table[b->header.region[i].kind].data,
		       b->header.region[i].committed_bytes);
	*ret_len = end;
	return data;
}

void mtk_builder_make_controllable(struct mtk_builder *b)
{
	while (b->table[MT_REGION_REQUEST].count < MT_REQUEST_BYTES)
		mtk_builder_add(b, MT_REGION_REQUEST, "");
	b->header.control_done = b->header.control;
}

int mtk_builder_write_sparse(struct mtk_builder *b, const char *path, uint64_t capacity)
{
	uint64_t end = MT_STATE_HEADER_BYTES;
	uint32_t rows = 0;
	int failed = 0, fd = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	b->header.committed_bytes = 0;
	for (uint32_t kind = 1; kind < KINDS; kind++) {
		const struct table *t = &b->table[kind];
		uint64_t bytes = (uint64_t)t->count * elem_bytes[kind];
		uint64_t stored = MT_ALIGN_UP(bytes, (uint64_t)4096);
		if (!bytes)
			continue;
		b->header.region[rows++] = (struct mt_state_region){
			kind, elem_bytes[kind], end, capacity, t->count, stored, 0,
		};
		b->header.committed_bytes += stored;
		failed |= pwrite(fd, t->data, bytes, (off_t)end) != (ssize_t)bytes;
		end = MT_ALIGN_UP(end + capacity * elem_bytes[kind], (uint64_t)4096);
	}
	failed |= ftruncate(fd, (off_t)end) != 0;
	failed |= pwrite(fd, &b->header, sizeof(b->header), 0) != sizeof(b->header);
	failed |= close(fd) != 0;
	return failed ? -1 : 0;
}

struct mtk_builder *mtk_builder_sample(void)
{
	struct mtk_builder *b = mtk_builder_new();
	struct mt_state_header *h = mtk_builder_header(b);
	h->exe_string = mtk_builder_string(b, "/usr/bin/server");
	h->cmdline_string = mtk_builder_string(b, "server --port 80");
	uint32_t exe = mtk_builder_module(b, 0x400000, 0x480000, "/usr/bin/server");
	uint32_t lib = mtk_builder_module(b, 0x7f0000000000, 0x7f0000200000, "/usr/lib/libc.so.6");
	uint32_t worker = mtk_builder_thread(b, 4243, "worker");
	uint32_t start = mtk_builder_node(b, 0x7f0000001000, 1, lib);
	uint32_t main_ = mtk_builder_node(b, 0x401000, start, exe);
	uint32_t leak =
		mtk_builder_site(b, mtk_builder_node(b, 0x402000, main_, exe), MT_CALL_MALLOC);
	uint32_t busy = mtk_builder_site(b, mtk_builder_node(b, 0x403000, main_, exe), MT_CALL_NEW);
	uint32_t big = mtk_builder_site(b, main_, MT_CALL_CALLOC);
	uint32_t map = mtk_builder_site(b, start, MT_CALL_MMAP);
	((struct mt_state_site *)mtk_builder_at(b, MT_REGION_SITES, map))->heap = MT_HEAP_MMAP;
	for (uint32_t i = 0; i < 10; i++) {
		h->now_unit = 100 * i;
		mtk_builder_alloc(b, 1, leak, 0x10000 + 0x100 * i, 100);
		mtk_builder_alloc(b, 1, busy, 0x20000 + 0x1000 * i, 40 + 400 * (i % 2));
	}
	mtk_builder_alloc(b, worker, big, 0x500000, 1 << 20);
	mtk_builder_alloc(b, worker, map, 0x7f1000000000, 1 << 16);
	h->now_unit = 2000;
	for (uint32_t i = 0; i < 10; i++)
		mtk_builder_dealloc(b, i % 2 ? worker : 1, 0x20000 + 0x1000 * i);
	mtk_builder_dealloc(b, worker, 0x500000);
	mtk_builder_alloc(b, worker, leak, 0x30000, 7);
	return b;
}

/* The sites of the two below: parse and load in the program, a pool's worker in a thread. */
struct places {
	uint32_t load, parse, work;
};

static struct places make_places(struct mtk_builder *b)
{
	struct mt_state_header *h = mtk_builder_header(b);
	h->exe_string = mtk_builder_string(b, "/usr/bin/server");
	h->cmdline_string = mtk_builder_string(b, "server --port 80");
	uint32_t exe = mtk_builder_module(b, 0x400000, 0x480000, "/usr/bin/server");
	uint32_t main_ = mtk_builder_node(b, 0x401000, 1, exe);
	mtk_builder_thread(b, 4243, "worker");
	return (struct places){
		mtk_builder_node(b, 0x402000, main_, exe),
		mtk_builder_node(b, 0x403000, main_, exe),
		mtk_builder_node(b, 0x404000, 1, exe),
	};
}

static uint32_t sampled_site(struct mtk_builder *b, uint32_t node, uint32_t regime)
{
	uint32_t site = mtk_builder_site(b, node, MT_CALL_MALLOC);
	((struct mt_state_site *)mtk_builder_at(b, MT_REGION_SITES, site))->regime = regime;
	return site;
}

struct mtk_builder *mtk_builder_sampled(void)
{
	struct mtk_builder *b = mtk_builder_new();
	struct mt_state_header *h = mtk_builder_header(b);
	struct places at = make_places(b);
	uint32_t full = mtk_builder_site(b, at.load, MT_CALL_CALLOC);
	h->first_mode = MT_MODE_FULL;
	h->mode = MT_MODE_SAMPLE;
	h->interval_bytes = 8192;
	for (uint32_t i = 0; i < 5; i++)
		mtk_builder_alloc(b, 1, full, 0x10000 + 0x100 * i, 200);
	h->now_unit = 1000;
	mtk_builder_change(b, MT_CHANGE_MODE, MT_MODE_FULL, MT_MODE_SAMPLE);
	uint32_t first = mtk_builder_regime(b, MT_REGIME_BYTES, 4096, 0);
	uint32_t load = sampled_site(b, at.load, first), parse = sampled_site(b, at.parse, first);
	for (uint32_t i = 0; i < 60; i++) {
		h->now_unit = 1000 + 50 * i;
		mtk_builder_alloc(b, 1, load, 0x100000 + 0x1000 * i, 64 + 8 * (i % 3));
		mtk_builder_count_alloc(b, 1, 0x800000 + 0x1000 * i, 4000);
	}
	for (uint32_t i = 0; i < 4; i++)
		mtk_builder_alloc(b, 1, parse, 0x200000 + 0x10000 * i, i ? 3000 : 50000);
	h->now_unit = 5000;
	mtk_builder_change(b, MT_CHANGE_MEMORY_RAIL, 4096, 8192);
	uint32_t second = mtk_builder_regime(b, MT_REGIME_BYTES, 8192, 0);
	uint32_t work = sampled_site(b, at.work, second), later = sampled_site(b, at.load, second);
	for (uint32_t i = 0; i < 3; i++) {
		mtk_builder_alloc(b, 2, work, 0x300000 + 0x1000 * i, 1000);
		mtk_builder_alloc(b, 2, later, 0x310000 + 0x1000 * i, 72);
	}
	mtk_builder_alloc(b, 2, work, 0x7f0059e00000, 2 << 20);
	h->now_unit = 9000;
	for (uint32_t i = 0; i < 20; i++)
		mtk_builder_dealloc(b, i % 2 + 1, 0x100000 + 0x1000 * i);
	mtk_builder_dealloc(b, 1, 0x10000);
	for (uint32_t i = 0; i < 3; i++) /* all of this site's samples */
		mtk_builder_dealloc(b, 2, 0x300000 + 0x1000 * i);
	return b;
}

struct mtk_builder *mtk_builder_counted(void)
{
	struct mtk_builder *b = mtk_builder_new();
	struct mt_state_header *h = mtk_builder_header(b);
	make_places(b);
	h->mode = h->first_mode = MT_MODE_STATS;
	for (uint32_t i = 0; i < 100; i++) {
		h->now_unit = 36 * i;
		mtk_builder_count_alloc(b, 1, 0x10000 + 0x1000 * i, 24 + 16 * (i % 8));
		mtk_builder_count_alloc(b, 2, 0x200000 + 0x1000 * i, 1032);
		if (i % 2)
			mtk_builder_count_free(b, 1, 0x200000 + 0x1000 * i, 1032);
	}
	mtk_builder_count_alloc(b, 1, 0x7f0059e00000, 4 << 20);
	mtk_builder_count_alloc(b, 2, 0x7f001ec00000, 3 << 20);
	mtk_builder_count_alloc(b, 2, 0x7f003e300000, 1 << 20);
	h->now_unit = 3600;
	mtk_builder_count_free(b, 1, 0x7f001ec00000, 3 << 20);
	mtk_builder_change(b, MT_CHANGE_SWITCH, 1, 0);
	mtk_builder_change(b, MT_CHANGE_SWITCH, 0, 1);
	struct mt_state_thread *t = mtk_builder_at(b, MT_REGION_THREADS, 2);
	t->reallocs = 80;
	t->realloc_grown = 50;
	return b;
}

static void add_error(struct mtk_builder *b, const struct mt_state_error *e)
{
	static const struct mt_state_error unused;
	if (!mtk_builder_count(b, MT_REGION_ERRORS))
		mtk_builder_add(b, MT_REGION_ERRORS, &unused);
	mtk_builder_add(b, MT_REGION_ERRORS, e);
}

struct mtk_builder *mtk_builder_guarded(void)
{
	struct mtk_builder *b = mtk_builder_sampled();
	struct mt_state_header *h = mtk_builder_header(b);
	uint32_t made = mtk_builder_node(b, 0x402100, /* complete */ 1, 1);
	uint32_t gone = mtk_builder_node(b, 0x402200, 1, 1);
	uint32_t used = mtk_builder_node(b, 0x402301, 1, 1);
	struct mt_state_node *exact = mtk_builder_at(b, MT_REGION_NODES, used);
	exact->meta |= MT_NODE_EXACT << 20;
	h->guard_slots = 64;
	h->guard_page_bytes = 4096;
	h->guard_placed = 12;
	h->guard_refused = 3;
	add_error(b, &(struct mt_state_error){
			     .kind = MT_ERROR_OVERFLOW,
			     .access = MT_ACCESS_WRITE,
			     .signal = 11,
			     .address = 0x7f0000002000,
			     .block = 0x7f0000001fe0,
			     .block_bytes = 32,
			     .pc = 0x402300,
			     .use = {4242, 1, 100, used},
			     .alloc = {4242, 1, 20, made},
		     });
	add_error(b, &(struct mt_state_error){
			     .kind = MT_ERROR_DOUBLE_FREE,
			     .flags = MT_ERROR_FATAL,
			     .address = 0x7f0000003fc0,
			     .block = 0x7f0000003fc0,
			     .block_bytes = 50,
			     .use = {4243, 2, 200, gone},
			     .alloc = {4242, 1, 150, made},
			     .free = {4242, 1, 180, gone},
		     });
	return b;
}

/* What is around `start`: zeros, `bytes` of text at first, and 0xbb up to `last`. */
static uint32_t add_damage(struct mtk_builder *b, const struct mt_state_damage *d, const void *text,
			   size_t bytes)
{
	static const struct mt_state_damage unused;
	struct mt_state_damage copy = *d;
	copy.window_start = (d->first & ~(uint64_t)15) - 64;
	copy.window_bytes = sizeof(copy.window);
	memcpy(copy.window + (d->first - copy.window_start), text, bytes);
	if (!mtk_builder_count(b, MT_REGION_DAMAGE))
		mtk_builder_add(b, MT_REGION_DAMAGE, &unused);
	return mtk_builder_add(b, MT_REGION_DAMAGE, &copy);
}

/* 24 bytes, of which five behind the end were written, as a free of main found. */
static void add_overflow(struct mtk_builder *b, uint64_t block, uint32_t made, uint32_t gone)
{
	struct mt_state_damage d = {
		.first = block + 24,
		.last = block + 28,
		.count = 5,
		.expected = 0xbb,
		.before = {block - 0x60, 40, made, 1},
		.after = {block + 0x80, 100, made, 0},
	};
	struct mt_state_error e = {
		.kind = MT_ERROR_OVERFLOW,
		.access = MT_ACCESS_WRITE,
		.flags = MT_ERROR_FOUND_LATE,
		.address = block + 24,
		.block = block,
		.block_bytes = 24,
		.use = {4242, 1, 100, gone},
		.alloc = {4242, 1, 20, made},
		.call = MT_CALL_FREE,
		.alloc_call = MT_CALL_MALLOC,
	};
	e.damage = add_damage(b, &d, "hello", 5);
	add_error(b, &e);
}

/* 48 bytes into which an address of the program was written after their free. */
static void add_use_after_free(struct mtk_builder *b, uint32_t made, uint32_t gone)
{
	uint64_t pointer = 0x402345;
	struct mt_state_damage d = {
		.first = 0x7f0000005008,
		.last = 0x7f000000500f,
		.count = 8,
		.expected = 0xef,
	};
	struct mt_state_error e = {
		.kind = MT_ERROR_USE_AFTER_FREE,
		.access = MT_ACCESS_WRITE,
		.flags = MT_ERROR_FOUND_LATE,
		.address = 0x7f0000005008,
		.block = 0x7f0000005000,
		.block_bytes = 48,
		.use = {4243, 2, 300, 0},
		.alloc = {4242, 1, 30, made},
		.free = {4243, 2, 200, gone},
		.alloc_call = MT_CALL_NEW,
	};
	e.damage = add_damage(b, &d, &pointer, sizeof(pointer));
	add_error(b, &e);
}

struct mtk_builder *mtk_builder_checked(void)
{
	struct mtk_builder *b = mtk_builder_sample();
	struct mt_state_header *h = mtk_builder_header(b);
	uint32_t made = mtk_builder_node(b, 0x402100, /* complete */ 1, 1);
	uint32_t gone = mtk_builder_node(b, 0x402200, 1, 1);
	h->mode = h->first_mode = MT_MODE_CHECK;
	add_overflow(b, 0x7f0000001000, made, gone);
	add_overflow(b, 0x7f0000002000, made, gone);
	add_use_after_free(b, made, gone);
	add_error(b, &(struct mt_state_error){
			     .kind = MT_ERROR_MISMATCH,
			     .address = 0x7f0000006000,
			     .block = 0x7f0000006000,
			     .block_bytes = 7,
			     .use = {4242, 1, 400, gone},
			     .alloc = {4242, 1, 40, made},
			     .call = MT_CALL_FREE,
			     .alloc_call = MT_CALL_NEW_ARRAY,
		     });
	add_error(b, &(struct mt_state_error){
			     .kind = MT_ERROR_HEADER,
			     .flags = MT_ERROR_FATAL,
			     .address = 0x7f0000007000,
			     .use = {4242, 1, 500, gone},
			     .call = MT_CALL_REALLOC,
			     .tag = 0x41414141,
		     });
	((struct mt_state_thread *)mtk_builder_at(b, MT_REGION_THREADS, 1))->mismatched_frees = 1;
	return b;
}

struct mtk_builder *mtk_builder_example(void)
{
	struct mtk_builder *b = mtk_builder_new();
	struct mt_state_header *h = mtk_builder_header(b);
	h->exe_string = mtk_builder_string(b, "/bin/app");
	uint32_t exe = mtk_builder_module(b, 0x400000, 0x410000, "/bin/app");
	uint32_t main_ = mtk_builder_node(b, 0x401136, /* complete */ 1, exe);
	uint32_t site =
		mtk_builder_site(b, mtk_builder_node(b, 0x401180, main_, exe), MT_CALL_MALLOC);
	h->now_unit = 3;
	mtk_builder_alloc(b, 1, site, 0x5581c0, 24);
	mtk_builder_alloc(b, 1, site, 0x5581e0, 24);
	h->now_unit = 7;
	mtk_builder_dealloc(b, 1, 0x5581c0);
	return b;
}
