/* SPDX-License-Identifier: MIT */
/* Raw tables to the profile's. Invariant: no index goes into the profile unchecked. */
#include "formats/mtk_fill.h"

#include <stdio.h>
#include <unistd.h>
#include <errno.h>
#include <string.h>

#include "base/arena.h"
#include "formats/mtk_guard.h"
#include "formats/mtk_look.h"
#include "formats/mtk_modes.h"

enum { STEPS_MAX = 1024 };

const char *mt_mtk_string(struct mt_mtk_reader *rd, uint32_t offset)
{
	if (!offset)
		return "";
	if (offset < rd->strings_len)
		return rd->strings + offset;
	rd->damage[MT_MTK_BAD_STRING]++;
	return "";
}

static int fill_modules(struct mt_mtk_reader *rd)
{
	const struct mt_state_module *raw = rd->raw.module;
	uint32_t count = rd->raw.module_count;
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
			.path = mt_mtk_string(rd, m->path_string),
			.build_id_bytes = MT_MIN(m->build_id_bytes, (uint32_t)sizeof(to->build_id)),
			.is_program = m->flags & MT_MODULE_PROGRAM,
			.is_self = m->flags & MT_MODULE_SELF,
			.is_vdso = m->flags & MT_MODULE_VDSO,
			.is_provider = m->flags & MT_MODULE_PROVIDER,
			.is_loader = m->flags & MT_MODULE_LOADER,
			.loaded_ns = mt_profile_clock_at(&rd->time.clock, m->loaded_unit),
			.file_dev = m->file_dev,
			.file_inode = m->file_inode,
		};
		memcpy(to->build_id, m->build_id, to->build_id_bytes);
		if (m->unloaded_unit)
			to->unloaded_ns = mt_profile_clock_at(&rd->time.clock, m->unloaded_unit);
	}
	return 0;
}

static void fill_node(struct mt_mtk_reader *rd, struct mt_profile_node *to,
		      const struct mt_state_node *n)
{
	uint32_t module = n->meta & 0xfffff;
	to->kind = n->meta >> 20 & 15;
	to->by_frame_pointer = n->meta >> 24 & 2;
	if (to->kind > MT_FRAME_SOURCE)
		to->kind = MT_FRAME_CALL;
	if (to->kind == MT_FRAME_SOURCE) {
		to->source_file = mt_mtk_string(rd, (uint32_t)(n->pc >> 32));
		to->source_line = (uint32_t)n->pc;
		return;
	}
	to->pc = n->pc;
	if (module >= rd->profile->module_count) {
		rd->damage[MT_MTK_BAD_MODULE]++;
		module = 0;
	}
	to->module = module;
}

/*
 * Depth and end of node i and of all on its way to a root (depth 0 marks what is not done yet). A
 * way that leaves the table, makes a circle or is too long is cut: each node of it hangs on root 0.
 */
static void place_node(struct mt_mtk_reader *rd, const struct mt_state_node *raw, uint32_t i)
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
			rd->damage[MT_MTK_BAD_PARENT] +=
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

static int fill_nodes(struct mt_mtk_reader *rd)
{
	const struct mt_state_node *raw = rd->raw.node;
	uint32_t count = rd->raw.node_count;
	struct mt_profile *p = rd->profile;
	p->node_count = MT_MAX(count, (uint32_t)MT_NODE_ROOTS);
	/* and one for each error: mtk_guard.c */
	p->node = mt_arena_array(p->arena, (size_t)p->node_count + rd->raw.error_count,
				 sizeof(*p->node));
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

static int fill_heaps(struct mt_mtk_reader *rd)
{
	const struct mt_state_heap *raw = rd->raw.heap;
	uint32_t count = rd->raw.heap_count;
	static const char *const names[] = {"malloc", "mmap", "brk"};
	struct mt_profile *p = rd->profile;
	p->heap_count =
		MT_MIN(MT_MAX(count, (uint32_t)MT_HEAP_FIRST_CUSTOM), (uint32_t)MT_HEAPS_MAX);
	p->heap = mt_arena_array(p->arena, p->heap_count, sizeof(*p->heap));
	if (!p->heap)
		return -ENOMEM;
	for (uint32_t i = 0; i < p->heap_count; i++) {
		const char *name = i < count ? mt_mtk_string(rd, raw[i].name_string) : "";
		if (!*name)
			name = i < MT_ARRAY_LEN(names) ? names[i]
						       : mt_arena_printf(p->arena, "heap %u", i);
		if (!name)
			return -ENOMEM;
		p->heap[i].name = name;
	}
	return 0;
}

static int fill_labels(struct mt_mtk_reader *rd)
{
	const struct mt_state_label *raw = rd->raw.label;
	uint32_t count = rd->raw.label_count;
	struct mt_profile *p = rd->profile;
	p->label = mt_arena_array(p->arena, count, sizeof(*p->label));
	if (!p->label)
		return -ENOMEM;
	p->label_count = count;
	p->label[0] = "";
	for (uint32_t i = 1; i < count; i++)
		p->label[i] = mt_mtk_string(rd, raw[i].name_string);
	return 0;
}

static uint32_t checked(struct mt_mtk_reader *rd, uint32_t index, uint32_t count,
			enum mt_mtk_damage what)
{
	if (index < count)
		return index;
	rd->damage[what]++;
	return 0;
}

static int fill_sites(struct mt_mtk_reader *rd)
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
		to->node = checked(rd, s->node, p->node_count, MT_MTK_BAD_SITE_NODE);
		to->heap = checked(rd, s->heap, p->heap_count, MT_MTK_BAD_SITE_HEAP);
		to->label = checked(rd, s->label, p->label_count, MT_MTK_BAD_SITE_LABEL);
		to->call = s->call;
		to->regime = (uint16_t)checked(rd, s->regime, p->regime_count, MT_MTK_BAD_REGIME);
		to->first_ns = mt_profile_clock_at(&rd->time.clock, s->first_unit);
	}
	return 0;
}

/* Sizes stay where they are: the profile takes over the file's histograms. */
static int fill_hists(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	_Static_assert(sizeof(struct mt_state_hist) == sizeof(*p->hist), "one row");
	int r = mt_arena_adopt(p->arena, rd->raw.hist);
	if (r)
		return r;
	p->hist = (uint32_t(*)[MT_PROFILE_SIZES])rd->raw.hist;
	p->hist_count = rd->raw.hist_count;
	rd->raw.hist = NULL;
	return 0;
}

static void fill_cell(struct mt_mtk_reader *rd, struct mt_profile_cell *to,
		      const struct mt_state_cell *c)
{
	struct mt_profile *p = rd->profile;
	to->counts = (struct mt_profile_counts){c->allocs, c->frees, c->bytes, c->freed_bytes,
						c->temporaries};
	memcpy(to->lifetime, c->lifetime, sizeof(to->lifetime));
	to->size_bucket = c->size_known == 1 && !c->hist ? c->size_bucket : MT_PROFILE_SIZES;
	if (c->allocs)
		to->hist = checked(rd, c->hist, p->hist_count, MT_MTK_BAD_HIST);
	if (!c->site)
		return; /* not in use */
	to->site = checked(rd, c->site, p->site_count, MT_MTK_BAD_CELL_SITE);
	to->thread = checked(rd, c->thread, p->thread_count, MT_MTK_BAD_CELL_THREAD);
}

static int fill_cells(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	p->cell_count = rd->raw.cell_count;
	p->cell = mt_arena_array(p->arena, p->cell_count, sizeof(*p->cell));
	if (!p->cell)
		return -ENOMEM;
	for (uint32_t i = 1; i < p->cell_count; i++)
		fill_cell(rd, &p->cell[i], &rd->raw.cell[i]);
	return 0;
}

/* The tracker itself notices a thread's end only when it needs the place. */
static bool thread_is_gone(const struct mt_mtk_reader *rd, const struct mt_state_thread *t)
{
	char path[64];
	if (!t->state)
		return false;
	if (!rd->moving)
		return rd->raw.header.end_kind != MT_END_SNAPSHOT;
	snprintf(path, sizeof(path), "/proc/%d/task/%u", rd->raw.header.pid, t->tid);
	return access(path, F_OK) != 0;
}

static void fill_thread(struct mt_mtk_reader *rd, struct mt_profile_thread *to,
			const struct mt_state_thread *t)
{
	*to = (struct mt_profile_thread){
		.tid = t->tid,
		.ended = t->state == 2 || thread_is_gone(rd, t),
		.reuse_count = t->reuse_count,
		.start_ns = mt_profile_clock_at(&rd->time.clock, t->start_unit),
		.live_bytes = (int64_t)(t->totals[MT_CLASS_MALLOC].bytes -
					t->totals[MT_CLASS_MALLOC].freed_bytes),
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
	memcpy(to->verify_unsure, t->verify_unsure, sizeof(to->verify_unsure));
	for (unsigned i = 0; i < MT_ARRAY_LEN(to->heap); i++)
		to->heap[i] =
			(struct mt_profile_counts){t->totals[i].allocs, t->totals[i].frees,
						   t->totals[i].bytes, t->totals[i].freed_bytes, 0};
	to->heap[MT_CLASS_MALLOC].temporaries = t->temporaries;
}

static int fill_threads(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	p->thread_count = rd->raw.thread_count;
	p->thread = mt_arena_array(p->arena, p->thread_count, sizeof(*p->thread));
	if (!p->thread)
		return -ENOMEM;
	uint32_t filled = 0;
	for (uint32_t i = 1; i < p->thread_count; i++)
		if (rd->raw.thread[i].state) {
			fill_thread(rd, &p->thread[i], &rd->raw.thread[i]);
			filled++;
		} else { /* not counted either */
			memset(&rd->raw.thread[i], 0, sizeof(rd->raw.thread[i]));
		}
	if (!filled && !rd->moving) /* else a file of zeros would be a program without a leak */
		rd->damage[MT_MTK_BAD_THREAD] += rd->raw.header.threads_seen;
	return 0;
}

static void fill_header(struct mt_mtk_reader *rd)
{
	const struct mt_state_header *h = &rd->raw.header;
	struct mt_profile *p = rd->profile;
	p->pid = h->pid;
	p->ppid = h->ppid;
	p->proc_start_ticks = h->proc_start;
	memcpy(p->boot_id, h->boot_id, sizeof(p->boot_id));
	p->exe = mt_mtk_string(rd, h->exe_string);
	p->cmdline = mt_mtk_string(rd, h->cmdline_string);
	p->output = mt_mtk_string(rd, h->output_string);
	p->options = mt_mtk_string(rd, h->options_string);
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
	p->lost[MT_LOST_UNSEEN_FREE] += rd->stale.count;
	p->state_bytes = h->committed_bytes;
	p->state_max_bytes = h->max_bytes;
	p->threads_seen = h->threads_seen;
	p->children_seen = h->children_seen;
	p->recording = h->control & 1;
	p->process_alive = rd->moving;
	p->times_estimated = rd->time.estimated;
	p->peak_ns = mt_profile_clock_at(&rd->time.clock, (uint32_t)h->peak_unit);
	p->time_resolution_ns = mt_profile_clock_ns(&rd->time.clock, 1);
	p->duration_ns =
		MT_MAX(mt_profile_clock_ns(&rd->time.clock, h->now_unit), rd->time.mark_ns);
	if (rd->moving) {
		uint64_t now = mt_mtk_time_mono_ns();
		if (now > h->mono_start_ns)
			p->duration_ns = MT_MAX(p->duration_ns, now - h->mono_start_ns);
	}
	for (uint32_t i = 0; i < rd->source.region_count; i++)
		if (rd->source.region[i].kind < MT_ARRAY_LEN(p->region_refused))
			p->region_refused[rd->source.region[i].kind] = rd->source.region[i].refused;
}

/* Counts a block where it belongs; a cell or heap that is not there becomes none. */
static void place_block(struct mt_mtk_reader *rd, struct mt_profile_block *b)
{
	struct mt_profile *p = rd->profile;
	if (b->cell >= p->cell_count) {
		rd->damage[MT_MTK_BAD_BLOCK_CELL]++;
		b->cell = 0;
	}
	struct mt_profile_cell *c = &p->cell[b->cell];
	if (c->site) {
		b->heap = p->site[c->site].heap;
		if (p->site[c->site].regime) {
			mt_mtk_place_sample(rd, b);
			return;
		}
		c->live_count++;
		c->live_bytes += b->size;
	} else {
		b->cell = 0;
		if (b->heap >= p->heap_count) {
			rd->damage[MT_MTK_BAD_SITE_HEAP]++;
			b->heap = 0;
		}
	}
	p->heap[b->heap].live_count++;
	p->heap[b->heap].live_bytes += b->size;
}

static int adopt_blocks(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	if (!rd->blocks)
		return 0;
	int r = mt_arena_adopt(p->arena, rd->block);
	if (r)
		return r;
	p->block = rd->block;
	p->blocks = rd->blocks;
	rd->block = NULL;
	r = rd->block_key ? mt_arena_adopt(p->arena, rd->block_key) : 0;
	if (r)
		return r;
	p->block_key = rd->block_key;
	rd->block_key = NULL;
	r = rd->block_address ? mt_arena_adopt(p->arena, rd->block_address) : 0;
	if (r)
		return r;
	p->block_address = rd->block_address;
	rd->block_address = NULL;
	return 0;
}

static int fill_blocks(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	p->clock = rd->time.clock;
	for (size_t i = 0; i < rd->blocks; i++) {
		struct mt_profile_block *b = &rd->block[i];
		p->duration_ns = MT_MAX(p->duration_ns, mt_profile_clock_at(&p->clock, b->born));
		place_block(rd, b);
	}
	p->block_count = p->heap[MT_HEAP_MALLOC].live_count;
	p->block_bytes = p->heap[MT_HEAP_MALLOC].live_bytes;
	int r = mt_mtk_fill_look(rd);
	return r ? r : adopt_blocks(rd);
}

int mt_mtk_fill(struct mt_mtk_reader *rd)
{
	fill_header(rd);
	int r = fill_modules(rd);
	if (!r)
		r = fill_nodes(rd);
	if (!r)
		r = fill_heaps(rd);
	if (!r)
		r = fill_labels(rd);
	if (!r)
		r = mt_mtk_fill_regimes(rd);
	if (!r)
		r = fill_sites(rd);
	if (!r)
		r = fill_threads(rd);
	if (!r)
		r = fill_hists(rd);
	if (!r)
		r = fill_cells(rd);
	if (!r)
		r = mt_mtk_fill_modes(rd);
	if (!r)
		r = mt_mtk_fill_errors(rd);
	if (!r)
		r = mt_mtk_fill_samples(rd);
	if (!r)
		r = fill_blocks(rd);
	if (!r)
		mt_mtk_close_samples(rd);
	return r;
}
