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
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/file.h"
#include "formats/mtk_source.h"
#include "formats/mtk_sum.h"
#include "formats/mtk_time.h"

/* Kinds of damage that are counted and reported once, after all was read. */
enum damage {
	BAD_STRING,
	BAD_MODULE,
	BAD_PARENT,
	BAD_SITE_NODE,
	BAD_SITE_HEAP,
	BAD_SITE_LABEL,
	BAD_CELL_SITE,
	BAD_CELL_THREAD,
	BAD_BLOCK_CELL,
	BAD_HIST,
	DAMAGES
};

static const char *const damage_text[DAMAGES] = {
	[BAD_STRING] = "names or paths that are not in the file",
	[BAD_MODULE] = "stack frames in a module that is not in the file",
	[BAD_PARENT] = "stack frames without a way to the outermost frame",
	[BAD_SITE_NODE] = "sites with a stack that is not in the file",
	[BAD_SITE_HEAP] = "sites or blocks of a heap that is not in the file",
	[BAD_SITE_LABEL] = "sites with a label that is not in the file",
	[BAD_CELL_SITE] = "counters of a site that is not in the file",
	[BAD_CELL_THREAD] = "counters of a thread that is not in the file",
	[BAD_BLOCK_CELL] = "live blocks with counters that are not in the file",
	[BAD_HIST] = "counters with a size histogram that is not in the file",
};

enum { PEAK_TRIES = 3, BLOCK_TRIES = 4, STEPS_MAX = 1024 };

struct reader {
	struct mt_mtk_source source;
	struct mt_profile *profile;
	struct mt_mtk_raw raw; /* tables are heap blocks, owned */
	struct mt_mtk_time time;
	bool moving; /* the process runs */
	char *strings;
	uint32_t strings_len;
	struct mt_profile_block *block; /* owned; site is a cell number until resolved */
	size_t block_cap, blocks;
	uint64_t damage[DAMAGES];
	uint64_t warned_kinds; /* bit: this kind of region was reported */
};

static void reader_done(struct reader *rd)
{
	free(rd->raw.cell);
	free(rd->raw.hist);
	free(rd->raw.site);
	free(rd->raw.thread);
	free(rd->block);
	mt_profile_free(rd->profile);
}
MT_AUTO_DEFINE_INPLACE(reader, struct reader, reader_done)

/* ---- tables ---- */

/* Says once a region why it is not whole. */
static void warn_region(struct reader *rd, const struct mt_mtk_region *r, int walk_result)
{
	unsigned long long have = r->count, claim = r->used;
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
		mt_profile_warn(
			rd->profile,
			"the file is cut: of %llu elements of the table of %s %llu are there",
			claim, name, have);
	else if (r->fault == MT_MTK_FAULT_EMPTY)
		mt_profile_warn(
			rd->profile,
			"the table of %s claims %llu elements in a file that stores far fewer",
			name, claim);
	else if (walk_result)
		mt_profile_warn(rd->profile, "the table of %s cannot be read: %s", name,
				mt_err_text_of(walk_result));
	else if (!rd->moving && claim - have > r->refused && r->kind)
		mt_profile_warn(rd->profile, "of %llu elements of the table of %s %llu were stored",
				claim, name, have);
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
 * Copies a region to a new heap block of at least one element (zeroed where the file has none). 0
 * or -ENOMEM; everything else becomes a warning and zeros.
 */
static int load_table(struct reader *rd, uint32_t kind, void **ret_table, uint32_t *ret_count)
{
	mt_mtk_source_refresh(&rd->source, kind);
	const struct mt_mtk_region *r = mt_mtk_source_region(&rd->source, kind);
	uint32_t elem_bytes = mt_mtk_elem_bytes(kind);
	uint64_t count = MT_MIN(r->count, (uint64_t)UINT32_MAX - 1);
	struct table t = {.elem_bytes = elem_bytes, .stride = r->elem_bytes};
	/* one more: a table is never empty, and strings get a NUL behind the last */
	t.to = mt_alloc_zero((size_t)count + 1, elem_bytes);
	if (!t.to)
		return -ENOMEM;
	struct mt_mtk_region bounded = *r;
	bounded.count = count;
	int walk = mt_mtk_source_walk(&rd->source, &bounded, copy_run, &t);
	if (walk == -ENOMEM) {
		free(t.to);
		return walk;
	}
	warn_region(rd, r, walk);
	*ret_table = t.to;
	*ret_count = count ? (uint32_t)count : 1;
	return 0;
}

/* ---- blocks ---- */

static int add_block(struct reader *rd, const struct mt_profile_block *b)
{
	if (rd->blocks == rd->block_cap) {
		struct mt_profile_block *grown =
			mt_alloc_grow(rd->block, &rd->block_cap, rd->blocks + 1, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		rd->block = grown;
	}
	rd->block[rd->blocks++] = *b;
	return 0;
}

struct block_walk {
	struct reader *rd;
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

static int visit_live(void *user, const void *elems, uint64_t first, uint64_t count)
{
	const struct block_walk *w = user;
	struct mt_state_live e;
	for (uint64_t i = 0; i < count; i++) {
		memcpy(&e, (const uint8_t *)elems + i * w->region->elem_bytes, sizeof(e));
		if (!e.place || !(first + i))
			continue;
		settle(w, first + i, &e, sizeof(e));
		if (!e.place)
			continue;
		struct mt_profile_block b = {
			.address = e.place,
			.size = e.size,
			.born_ns = e.unit,
			.site = e.cell,
		};
		int r = add_block(w->rd, &b);
		if (r)
			return r;
	}
	return 0;
}

static int visit_large(void *user, const void *elems, uint64_t first, uint64_t count)
{
	const struct block_walk *w = user;
	struct mt_state_large e;
	for (uint64_t i = 0; i < count; i++) {
		memcpy(&e, (const uint8_t *)elems + i * w->region->elem_bytes, sizeof(e));
		if (!e.place || !(first + i))
			continue;
		settle(w, first + i, &e, sizeof(e));
		if (!e.place)
			continue;
		struct mt_profile_block b = {
			.address = e.place,
			.size = e.size,
			.born_ns = e.unit,
			.site = e.cell,
			.heap = e.heap,
		};
		int r = add_block(w->rd, &b);
		if (r)
			return r;
	}
	return 0;
}

static int load_blocks(struct reader *rd, uint32_t kind, mt_mtk_visit *visit)
{
	mt_mtk_source_refresh(&rd->source, kind);
	struct block_walk w = {rd, mt_mtk_source_region(&rd->source, kind)};
	int walk = mt_mtk_source_walk(&rd->source, w.region, visit, &w);
	if (walk == -ENOMEM)
		return walk;
	warn_region(rd, w.region, walk);
	return 0;
}

/* Cell numbers become sites and threads; times become nanoseconds. */
static int resolve_blocks(struct reader *rd)
{
	struct mt_profile *p = rd->profile;
	for (size_t i = 0; i < rd->blocks; i++) {
		struct mt_profile_block *b = &rd->block[i];
		uint32_t cell = b->site;
		b->born_ns = mt_mtk_time_ns(&rd->time,
					    mt_mtk_time_expand(&rd->time, (uint32_t)b->born_ns));
		p->duration_ns = MT_MAX(p->duration_ns, b->born_ns);
		b->site = b->thread = 0;
		if (cell >= p->cell_count) {
			rd->damage[BAD_BLOCK_CELL]++;
			cell = 0;
		}
		if (p->cell[cell].site) {
			b->site = p->cell[cell].site;
			b->thread = p->cell[cell].thread;
			b->heap = p->site[b->site].heap;
			p->cell[cell].live_count++;
			p->cell[cell].live_bytes += b->size;
		} else if (b->heap >= p->heap_count) {
			rd->damage[BAD_SITE_HEAP]++;
			b->heap = 0;
		}
	}
	if (!rd->blocks)
		return 0;
	int r = mt_arena_adopt(p->arena, rd->block);
	if (r)
		return r;
	p->block = rd->block;
	p->blocks = rd->blocks;
	rd->block = NULL;
	return 0;
}

/* ---- from raw tables to the profile's ---- */

static const char *string_at(struct reader *rd, uint32_t offset)
{
	if (!offset)
		return "";
	if (offset < rd->strings_len)
		return rd->strings + offset;
	rd->damage[BAD_STRING]++;
	return "";
}

static int fill_strings(struct reader *rd)
{
	void *table;
	int r = load_table(rd, MT_REGION_STRINGS, &table, &rd->strings_len);
	if (r)
		return r;
	rd->strings = table;
	rd->strings[0] = 0;
	r = mt_arena_adopt(rd->profile->arena, table);
	if (r)
		free(table);
	return r;
}

static int fill_modules(struct reader *rd, const struct mt_state_module *raw, uint32_t count)
{
	struct mt_profile *p = rd->profile;
	p->module = mt_arena_array(p->arena, count, sizeof(*p->module));
	if (!p->module)
		return -ENOMEM;
	p->module_count = count;
	p->module[0].path = "";
	for (uint32_t i = 1; i < count; i++) {
		const struct mt_state_module *m = &raw[i];
		struct mt_profile_module *to = &p->module[i];
		*to = (struct mt_profile_module){
			.lo = m->lo,
			.hi = m->hi,
			.bias = m->bias,
			.path = string_at(rd, m->path_string),
			.build_id_bytes = MT_MIN(m->build_id_bytes, (uint32_t)sizeof(to->build_id)),
			.is_program = m->flags & MT_MODULE_PROGRAM,
			.is_self = m->flags & MT_MODULE_SELF,
			.is_vdso = m->flags & MT_MODULE_VDSO,
			.is_provider = m->flags & MT_MODULE_PROVIDER,
			.is_loader = m->flags & MT_MODULE_LOADER,
			.loaded_ns = mt_mtk_time_ns(&rd->time,
						    mt_mtk_time_expand(&rd->time, m->loaded_unit)),
			.file_dev = m->file_dev,
			.file_inode = m->file_inode,
		};
		memcpy(to->build_id, m->build_id, to->build_id_bytes);
		if (m->unloaded_unit)
			to->unloaded_ns = mt_mtk_time_ns(
				&rd->time, mt_mtk_time_expand(&rd->time, m->unloaded_unit));
	}
	return 0;
}

static void fill_node(struct reader *rd, struct mt_profile_node *to, const struct mt_state_node *n)
{
	uint32_t module = n->meta & 0xfffff;
	to->kind = n->meta >> 20 & 15;
	to->by_frame_pointer = n->meta >> 24 & 2;
	if (to->kind > MT_FRAME_SOURCE)
		to->kind = MT_FRAME_CALL;
	if (to->kind == MT_FRAME_SOURCE) {
		to->source_file = string_at(rd, (uint32_t)(n->pc >> 32));
		to->source_line = (uint32_t)n->pc;
		return;
	}
	to->pc = n->pc;
	if (module >= rd->profile->module_count) {
		rd->damage[BAD_MODULE]++;
		module = 0;
	}
	to->module = module;
}

/*
 * Depth and end of node i and of all on its way to a root (depth 0 marks what is not done yet). A
 * way that leaves the table, makes a circle or is too long is cut: each node of it hangs on root 0.
 */
static void place_node(struct reader *rd, const struct mt_state_node *raw, uint32_t i)
{
	struct mt_profile *p = rd->profile;
	uint32_t way[STEPS_MAX], steps = 0, at = i;
	while (at >= MT_NODE_ROOTS && !p->node[at].depth && steps < STEPS_MAX) {
		way[steps++] = at;
		at = raw[at].parent;
		if (at >= p->node_count)
			break;
	}
	bool bad = at >= p->node_count || (at >= MT_NODE_ROOTS && !p->node[at].depth) ||
		   p->node[at].depth > UINT16_MAX - STEPS_MAX;
	if (bad) {
		for (uint32_t k = 0; k < steps; k++) {
			rd->damage[BAD_PARENT] +=
				!p->node[way[k]].depth; /* a circle repeats them */
			p->node[way[k]].parent = 0;
			p->node[way[k]].depth = 1;
			p->node[way[k]].end = MT_PROFILE_END_UNKNOWN;
		}
		return;
	}
	while (steps) {
		struct mt_profile_node *n = &p->node[way[--steps]];
		n->parent = at;
		n->depth = (uint16_t)(p->node[at].depth + 1);
		n->end = p->node[at].end;
		at = way[steps];
	}
}

static int fill_nodes(struct reader *rd, const struct mt_state_node *raw, uint32_t count)
{
	struct mt_profile *p = rd->profile;
	p->node_count = MT_MAX(count, (uint32_t)MT_NODE_ROOTS);
	p->node = mt_arena_array(p->arena, p->node_count, sizeof(*p->node));
	if (!p->node)
		return -ENOMEM;
	for (uint32_t i = 0; i < MT_NODE_ROOTS; i++) {
		p->node[i].parent = i;
		p->node[i].end =
			(uint8_t)(i <= MT_PROFILE_END_UNREADABLE ? i : MT_PROFILE_END_UNKNOWN);
	}
	for (uint32_t i = MT_NODE_ROOTS; i < count; i++)
		fill_node(rd, &p->node[i], &raw[i]);
	for (uint32_t i = MT_NODE_ROOTS; i < count; i++)
		if (!p->node[i].depth)
			place_node(rd, raw, i);
	return 0;
}

static int fill_heaps(struct reader *rd, const struct mt_state_heap *raw, uint32_t count)
{
	static const char *const names[] = {"malloc", "mmap", "brk"};
	struct mt_profile *p = rd->profile;
	p->heap_count =
		MT_MIN(MT_MAX(count, (uint32_t)MT_HEAP_FIRST_CUSTOM), (uint32_t)MT_HEAPS_MAX);
	p->heap = mt_arena_array(p->arena, p->heap_count, sizeof(*p->heap));
	if (!p->heap)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->heap_count; i++) {
		const char *name = i < count ? string_at(rd, raw[i].name_string) : "";
		if (!*name)
			name = i < MT_ARRAY_LEN(names) ? names[i]
						       : mt_arena_printf(p->arena, "heap %u", i);
		if (!name)
			return -ENOMEM;
		p->heap[i].name = name;
	}
	return 0;
}

static int fill_labels(struct reader *rd, const struct mt_state_label *raw, uint32_t count)
{
	struct mt_profile *p = rd->profile;
	p->label = mt_arena_array(p->arena, count, sizeof(*p->label));
	if (!p->label)
		return -ENOMEM;
	p->label_count = count;
	p->label[0] = "";
	for (uint32_t i = 1; i < count; i++)
		p->label[i] = string_at(rd, raw[i].name_string);
	return 0;
}

static uint32_t checked(struct reader *rd, uint32_t index, uint32_t count, enum damage what)
{
	if (index < count)
		return index;
	rd->damage[what]++;
	return 0;
}

static int fill_sites(struct reader *rd)
{
	struct mt_profile *p = rd->profile;
	p->site_count = rd->raw.site_count;
	p->site = mt_arena_array(p->arena, p->site_count, sizeof(*p->site));
	if (!p->site)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->site_count; i++) {
		const struct mt_state_site *s = &rd->raw.site[i];
		struct mt_profile_site *to = &p->site[i];
		if (!s->call)
			continue; /* not in use: stays zero */
		to->node = checked(rd, s->node, p->node_count, BAD_SITE_NODE);
		to->heap = checked(rd, s->heap, p->heap_count, BAD_SITE_HEAP);
		to->label = checked(rd, s->label, p->label_count, BAD_SITE_LABEL);
		to->call = s->call;
		to->first_ns =
			mt_mtk_time_ns(&rd->time, mt_mtk_time_expand(&rd->time, s->first_unit));
	}
	return 0;
}

static int fill_cells(struct reader *rd)
{
	struct mt_profile *p = rd->profile;
	p->cell_count = rd->raw.cell_count;
	p->cell = mt_arena_array(p->arena, p->cell_count, sizeof(*p->cell));
	if (!p->cell)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->cell_count; i++) {
		const struct mt_state_cell *c = &rd->raw.cell[i];
		if (!c->site)
			continue; /* not in use */
		p->cell[i].site = checked(rd, c->site, p->site_count, BAD_CELL_SITE);
		p->cell[i].thread = checked(rd, c->thread, p->thread_count, BAD_CELL_THREAD);
	}
	return 0;
}

static void fill_thread(struct reader *rd, struct mt_profile_thread *to,
			const struct mt_state_thread *t)
{
	*to = (struct mt_profile_thread){
		.tid = t->tid,
		.ended = t->state == 2,
		.reuse_count = t->reuse_count,
		.start_ns = mt_mtk_time_ns(&rd->time, mt_mtk_time_expand(&rd->time, t->start_unit)),
		.live_bytes = t->live_bytes,
		.peak_bytes = t->peak_bytes,
		.reallocs = t->reallocs,
		.realloc_grown = t->realloc_grown,
		.temporaries = t->temporaries,
		.unknown_frees = t->unknown_frees,
		.failed_allocs = t->failed_allocs,
		.captures = t->captures,
		.memo_hits = t->memo_hits,
		.same_as_last = t->same_as_last,
		.joined = t->joined,
		.frames_walked = t->frames_walked,
		.row_misses = t->row_misses,
		.fp_steps = t->fp_steps,
		.unplaced_allocs = t->unplaced_allocs,
		.unplaced_bytes = t->unplaced_bytes,
		.untracked_allocs = t->untracked_allocs,
		.untracked_bytes = t->untracked_bytes,
		.nested_allocs = t->nested_allocs,
		.nested_frees = t->nested_frees,
		.filtered_allocs = t->filtered_allocs,
		.filtered_bytes = t->filtered_bytes,
		.verified = t->verified,
		.verify_wrong = t->verify_wrong,
	};
	memcpy(to->name, t->name, sizeof(t->name));
	memcpy(to->ends, t->ends, sizeof(to->ends));
	for (unsigned i = 0; i < MT_ARRAY_LEN(to->heap); i++)
		to->heap[i] =
			(struct mt_profile_counts){t->totals[i].allocs, t->totals[i].frees,
						   t->totals[i].bytes, t->totals[i].freed_bytes, 0};
	to->heap[MT_CLASS_MALLOC].temporaries = t->temporaries;
}

static int fill_threads(struct reader *rd)
{
	struct mt_profile *p = rd->profile;
	p->thread_count = rd->raw.thread_count;
	p->thread = mt_arena_array(p->arena, p->thread_count, sizeof(*p->thread));
	if (!p->thread)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->thread_count; i++)
		if (rd->raw.thread[i].state)
			fill_thread(rd, &p->thread[i], &rd->raw.thread[i]);
		else /* not counted either */
			memset(&rd->raw.thread[i], 0, sizeof(rd->raw.thread[i]));
	return 0;
}

static int fill_header(struct reader *rd)
{
	const struct mt_state_header *h = &rd->raw.header;
	struct mt_profile *p = rd->profile;
	p->pid = h->pid;
	p->ppid = h->ppid;
	p->proc_start_ticks = h->proc_start;
	memcpy(p->boot_id, h->boot_id, sizeof(p->boot_id));
	p->exe = string_at(rd, h->exe_string);
	p->cmdline = string_at(rd, h->cmdline_string);
	p->output = string_at(rd, h->output_string);
	p->options = string_at(rd, h->options_string);
	p->arch = h->arch;
	p->libc = h->libc;
	p->door = h->door;
	p->mode = h->mode;
	p->depth = h->depth;
	p->version_major = h->version_major;
	p->version_minor = h->version_minor;
	p->wall_start_ns = h->wall_start_ns;
	p->end_kind = h->end_kind;
	p->end_code = h->end_code;
	p->notes = h->notes;
	memcpy(p->lost, h->lost, sizeof(p->lost));
	p->state_bytes = h->committed_bytes;
	p->state_max_bytes = h->max_bytes;
	p->threads_seen = h->threads_seen;
	p->children_seen = h->children_seen;
	p->recording = h->control & 1;
	p->process_alive = rd->moving;
	p->times_estimated = rd->time.estimated;
	p->peak_ns = mt_mtk_time_ns(&rd->time, h->peak_unit);
	p->time_resolution_ns = mt_mtk_time_ns(&rd->time, 1);
	p->duration_ns = MT_MAX(mt_mtk_time_ns(&rd->time, h->now_unit), rd->time.mark_ns);
	if (rd->moving) {
		uint64_t now = mt_mtk_time_mono_ns();
		if (now > h->mono_start_ns)
			p->duration_ns = MT_MAX(p->duration_ns, now - h->mono_start_ns);
	}
	for (uint32_t i = 0; i < rd->source.region_count; i++)
		if (rd->source.region[i].kind < MT_ARRAY_LEN(p->region_refused))
			p->region_refused[rd->source.region[i].kind] = rd->source.region[i].refused;
	return 0;
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

/* Events of all threads so far; rows that are not there count as none. */
static int events_so_far(struct reader *rd, uint64_t *ret_events)
{
	void *table;
	uint32_t count;
	int r = load_table(rd, MT_REGION_THREADS, &table, &count);
	if (r)
		return r;
	*ret_events = count_events(table, count);
	free(table);
	return 0;
}

/* The cells with the header that tells their peak epoch; again while the peak moves, within bounds.
 */
static int load_cells(struct reader *rd)
{
	for (int i = 0;; i++) {
		struct mt_state_header before = rd->raw.header;
		void *table;
		int r = load_table(rd, MT_REGION_CELLS, &table, &rd->raw.cell_count);
		if (r)
			return r;
		free(rd->raw.cell);
		rd->raw.cell = table;
		if (!rd->moving || mt_mtk_source_header(&rd->source, &rd->raw.header) ||
		    rd->raw.header.peak_epoch == before.peak_epoch || i == PEAK_TRIES)
			return 0;
	}
}

/* Copies blocks and counters. *ret_in_flight: events that some tables may have and others not. */
static int load_raw(struct reader *rd, uint64_t *ret_in_flight)
{
	void *table;
	uint64_t before = 0;
	int r = rd->moving ? events_so_far(rd, &before) : 0;
	if (!r)
		r = load_blocks(rd, MT_REGION_LIVE, visit_live);
	if (!r)
		r = load_blocks(rd, MT_REGION_LARGE, visit_large);
	if (!r)
		r = load_cells(rd);
	if (r)
		return r;
	r = load_table(rd, MT_REGION_THREADS, &table, &rd->raw.thread_count);
	if (r)
		return r;
	rd->raw.thread = table;
	r = load_table(rd, MT_REGION_HISTS, &table, &rd->raw.hist_count);
	if (r)
		return r;
	rd->raw.hist = table;
	r = load_table(rd, MT_REGION_SITES, &table, &rd->raw.site_count);
	if (r)
		return r;
	rd->raw.site = table;
	/* a thread that ran when the process ended may have been between two stores */
	uint64_t threads = rd->raw.thread_count;
	*ret_in_flight = rd->raw.header.end_kind == MT_END_EXITED && threads <= 2 ? 0 : 2 * threads;
	/* a free whose thread found no room for a counter of its own is in no site */
	*ret_in_flight += rd->raw.header.lost[MT_LOST_SITE_FULL];
	if (rd->moving)
		*ret_in_flight += count_events(rd->raw.thread, rd->raw.thread_count) - before;
	return 0;
}

/* The tables that others name, in order; raw copies live in `hold` until the end of the call. */
static int fill_all(struct reader *rd)
{
	mt_auto(free) void *nodes = NULL;
	mt_auto(free) void *modules = NULL;
	mt_auto(free) void *heaps = NULL;
	mt_auto(free) void *labels = NULL;
	uint32_t node_count, module_count, heap_count, label_count;
	int r = load_table(rd, MT_REGION_NODES, &nodes, &node_count);
	if (!r)
		r = load_table(rd, MT_REGION_MODULES, &modules, &module_count);
	if (!r)
		r = load_table(rd, MT_REGION_HEAPS, &heaps, &heap_count);
	if (!r)
		r = load_table(rd, MT_REGION_LABELS, &labels, &label_count);
	if (!r)
		r = fill_strings(rd);
	if (!r)
		r = fill_header(rd);
	if (!r)
		r = fill_modules(rd, modules, module_count);
	if (!r)
		r = fill_nodes(rd, nodes, node_count);
	if (!r)
		r = fill_heaps(rd, heaps, heap_count);
	if (!r)
		r = fill_labels(rd, labels, label_count);
	if (!r)
		r = fill_sites(rd);
	if (!r)
		r = fill_threads(rd);
	if (!r)
		r = fill_cells(rd);
	if (!r)
		r = resolve_blocks(rd);
	return r;
}

static void warn_all(struct reader *rd)
{
	struct mt_profile *p = rd->profile;
	for (unsigned i = 0; i < DAMAGES; i++)
		if (rd->damage[i])
			mt_profile_warn(p, "%llu %s", (unsigned long long)rd->damage[i],
					damage_text[i]);
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
static void settle_end(struct reader *rd, bool own)
{
	static const uint8_t unknown[16];
	struct mt_profile *p = rd->profile;
	if (p->end_kind > MT_END_UNKNOWN) {
		mt_profile_warn(p, "how the process ended is not known: the file says %u",
				p->end_kind);
		p->end_kind = MT_END_UNKNOWN;
	}
	if (p->end_kind != MT_END_RUNNING || rd->moving || rd->source.data)
		return;
	if (own || memcmp(p->boot_id, unknown, sizeof(unknown)))
		p->end_kind = MT_END_UNKNOWN; /* it is gone, or was on another machine */
}

static int read_source(struct reader *rd, struct mt_profile **ret_profile)
{
	uint64_t in_flight, bad_hists = 0;
	rd->profile = mt_profile_new();
	if (!rd->profile)
		return -ENOMEM;
	bool own = !rd->source.data && mt_mtk_time_is_own(&rd->source.header);
	rd->moving = own && mt_mtk_process_alive(&rd->source.header);
	rd->raw.header = rd->source.header;
	int r = load_raw(rd, &in_flight);
	if (r)
		return r;
	mt_mtk_time_init(&rd->time, &rd->raw.header, own);
	r = fill_all(rd);
	if (!r)
		r = mt_mtk_sum(rd->profile, &rd->raw, &bad_hists);
	if (r)
		return r;
	rd->damage[BAD_HIST] = bad_hists;
	settle_end(rd, own);
	warn_all(rd);
	mt_profile_check(rd->profile, in_flight);
	*ret_profile = rd->profile;
	rd->profile = NULL;
	return 0;
}

int mt_mtk_read_fd(int fd, const char *name, struct mt_profile **ret_profile, struct mt_err *err)
{
	mt_auto(reader) struct reader rd = {.profile = NULL};
	int r = mt_mtk_source_fd(&rd.source, fd, name, err);
	if (r)
		return r;
	r = read_source(&rd, ret_profile);
	return r ? mt_err_set_errno(err, r, "cannot read '%s'", name) : 0;
}

int mt_mtk_read_memory(const void *data, size_t len, const char *name,
		       struct mt_profile **ret_profile, struct mt_err *err)
{
	mt_auto(reader) struct reader rd = {.profile = NULL};
	int r = mt_mtk_source_memory(&rd.source, data, len, name, err);
	if (r)
		return r;
	r = read_source(&rd, ret_profile);
	return r ? mt_err_set_errno(err, r, "cannot read '%s'", name) : 0;
}

int mt_mtk_read(const char *path, struct mt_profile **ret_profile, struct mt_err *err)
{
	mt_auto(close) int fd = mt_mtk_open(path, err);
	if (fd < 0)
		return fd;
	return mt_mtk_read_fd(fd, path, ret_profile, err);
}

int mt_mtk_read_header(const char *path, struct mt_state_header *ret_header, struct mt_err *err)
{
	struct mt_mtk_source s;
	mt_auto(close) int fd = mt_mtk_open(path, err);
	if (fd < 0)
		return fd;
	int r = mt_mtk_source_fd(&s, fd, path, err);
	if (r)
		return r;
	*ret_header = s.header;
	return 0;
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
