/* SPDX-License-Identifier: MIT */
/* The sample profile. */

#include "support/profile_fixture.h"

#include "base/arena.h"
#include "core/cc.h"

#include <stdlib.h>
#include <string.h>

enum { MODULES = 4, NODES = 10, SITES = 6, THREADS = 3, CELLS = 6, BLOCKS = 16, HEAPS = 3 };
#define SECOND 1000000000ull
#define MIB 1048576ull

/* Nodes: 0 none, 1 root, 2 main, 3 load, 4 memtrack in load, 5 parse, 6 worker, 7 its parse, 8 map
 */
static const struct {
	uint32_t parent, module;
	uint64_t offset;
	const char *function;
	const char *file;
	uint32_t line;
} nodes[NODES] = {
	[2] = {1, 1, 0x1001, "main", "server.c", 10}, [3] = {2, 1, 0x1101, "load", "load.c", 20},
	[4] = {3, 3, 0x501, "mt_hook", NULL, 0},      [5] = {2, 1, 0x1201, "parse", "parse.c", 30},
	[6] = {1, 2, 0x2001, "worker", NULL, 0},      [7] = {6, 1, 0x1201, "parse", "parse.c", 30},
	[8] = {2, 1, 0x1301, "map", "map.c", 40},     [9] = {0, 0, 0, NULL, NULL, 0},
};

static void *array(struct mt_profile *p, size_t count, size_t size)
{
	void *a = mt_arena_array(p->arena, count, size);

	if (!a)
		abort();
	return a;
}

static void add_modules(struct mt_profile *p, const struct fixture_options *o)
{
	p->module_count = MODULES;
	p->module = array(p, MODULES, sizeof(*p->module));
	p->module[0].path = "";
	p->module[1] = (struct mt_profile_module){
		.lo = 0x400000 + o->slide,
		.hi = 0x410000 + o->slide,
		.bias = 0x400000 + o->slide,
		.path = o->program ? o->program : "/opt/app/server",
		.is_program = true,
		.build_id = {o->build_id, 2, 3},
		.build_id_bytes = o->build_id ? 20 : 0,
	};
	p->module[2] = (struct mt_profile_module){
		.lo = 0x700000 + o->slide * 3,
		.hi = 0x710000 + o->slide * 3,
		.bias = 0x700000 + o->slide * 3,
		.path = "/usr/lib/libpool.so.1",
	};
	p->module[3] = (struct mt_profile_module){
		.lo = 0x900000,
		.hi = 0x910000,
		.bias = 0x900000,
		.path = "/usr/lib/libmemtrack.so",
		.is_self = true,
	};
}

static void add_nodes(struct mt_profile *p)
{
	p->node_count = NODES;
	p->node = array(p, NODES, sizeof(*p->node));
	p->node[1] = (struct mt_profile_node){.parent = 1, .end = MT_PROFILE_END_COMPLETE};
	for (uint32_t i = 2; i < NODES; i++) {
		struct mt_profile_node *n = &p->node[i];

		if (!nodes[i].module)
			continue;
		n->parent = nodes[i].parent;
		n->module = nodes[i].module;
		n->pc = p->module[n->module].bias + nodes[i].offset;
		n->depth = (uint16_t)(p->node[n->parent].depth + 1);
		n->end = MT_PROFILE_END_COMPLETE;
	}
}

static void set_site(struct mt_profile *p, uint32_t site, uint32_t node, uint8_t call,
		     struct mt_profile_counts counts)
{
	struct mt_profile_site *s = &p->site[site];

	s->node = node;
	s->call = call;
	s->counts = counts;
	s->heap = call == 7;
	s->peak_bytes = counts.bytes;
	s->at_peak_bytes = counts.bytes - counts.freed_bytes / 2;
	s->at_peak_count = counts.allocs;
	p->cell[site] = (struct mt_profile_cell){
		.site = site, .thread = site == 3 ? 2 : 1, .counts = counts};
	p->cell_by_site[site] = site;
	s->first_cell = site;
	s->cell_count = 1;
}

static void add_block(struct mt_profile *p, uint32_t site, uint64_t size, uint64_t born_ns)
{
	struct mt_profile_site *s = &p->site[site];
	struct mt_profile_cell *c = &p->cell[site];

	p->block[p->blocks] = (struct mt_profile_block){
		.size = size,
		.born = (uint32_t)(born_ns / UNIT_NS),
		.cell = site,
		.heap = s->heap,
	};
	p->blocks++;
	s->live_count++;
	s->live_bytes += size;
	c->live_count++;
	c->live_bytes += size;
	p->heap[s->heap].live_count++;
	p->heap[s->heap].live_bytes += size;
}

static void add_sites(struct mt_profile *p, const struct fixture_options *o)
{
	uint64_t size = 500 + o->extra_bytes;

	p->site_count = SITES;
	p->site = array(p, SITES, sizeof(*p->site));
	p->cell_count = CELLS;
	p->cell = array(p, CELLS, sizeof(*p->cell));
	p->cell_by_site = array(p, CELLS, sizeof(*p->cell_by_site));
	p->block = array(p, BLOCKS, sizeof(*p->block));
	set_site(p, 1, 4, 1, (struct mt_profile_counts){4, 0, 4 * MIB, 0, 0});
	set_site(p, 2, 5, 2, (struct mt_profile_counts){3, 2, 300, 200, 2});
	set_site(p, 3, 7, 1, (struct mt_profile_counts){10, 0, 10 * size, 0, 0});
	set_site(p, 4, 8, 7, (struct mt_profile_counts){1, 0, 65536, 0, 0});
	set_site(p, 5, 5, 2, (struct mt_profile_counts){2, 2, 100, 100, 0});
	p->site[5].label = 1;
	p->cell[1].size_bucket = 21;
	p->cell[2].size_bucket = 7;
	p->cell[3].size_bucket = 9;
	p->cell[4].size_bucket = 17;
	p->cell[5].size_bucket = 6;
	p->cell[2].lifetime[1] = 2;
	p->cell[5].lifetime[4] = 2;
	for (uint64_t i = 0; i < 4; i++)
		add_block(p, 1, MIB, (1 + i * 25 / 10) * SECOND);
	add_block(p, 2, 100, 2 * SECOND);
	for (uint64_t i = 0; i < 10; i++)
		add_block(p, 3, size, 9 * SECOND);
	add_block(p, 4, 65536, SECOND);
}

static void add_threads(struct mt_profile *p)
{
	p->thread_count = THREADS;
	p->thread = array(p, THREADS, sizeof(*p->thread));
	p->thread[1].tid = (uint32_t)p->pid;
	p->thread[2].tid = (uint32_t)p->pid + 1;
	memcpy(p->thread[1].name, "main", 5);
	memcpy(p->thread[2].name, "pool, \"2\"", 10);
	p->thread[2].ended = true;
	for (uint32_t i = 1; i < SITES; i++) {
		struct mt_profile_counts *c = &p->site[i].counts;
		struct mt_profile_counts *sums[] = {
			&p->thread[p->cell[i].thread].heap[p->site[i].heap],
			&p->heap[p->site[i].heap].counts,
			&p->totals,
		};

		for (size_t k = 0; k < (p->site[i].heap ? 2 : 3); k++) {
			sums[k]->allocs += c->allocs;
			sums[k]->frees += c->frees;
			sums[k]->bytes += c->bytes;
			sums[k]->freed_bytes += c->freed_bytes;
			sums[k]->temporaries += c->temporaries;
		}
		if (!p->site[i].heap)
			p->thread[p->cell[i].thread].live_bytes +=
				(int64_t)(c->bytes - c->freed_bytes);
	}
	p->thread[1].peak_bytes = p->thread[1].live_bytes + 100;
	p->thread[2].peak_bytes = p->thread[2].live_bytes;
}

struct mt_profile *fixture_profile(const struct fixture_options *o)
{
	static const char *const heaps[HEAPS] = {"malloc", "mmap", "brk"};
	struct mt_profile *p = mt_profile_new();

	if (!p)
		abort();
	p->pid = o->pid ? (int32_t)o->pid : 100;
	p->ppid = 1;
	p->exe = o->program ? o->program : "/opt/app/server";
	p->cmdline = "server --port 80";
	p->output = p->options = "";
	p->mode = 1;
	p->depth = 64;
	p->duration_ns = 10 * SECOND;
	p->time_resolution_ns = UNIT_NS;
	p->clock = (struct mt_profile_clock){
		.mono_delta_ns = UNIT_NS, .tick_delta = 1, .now_unit = p->duration_ns / UNIT_NS};
	p->end_kind = 1;
	p->end_code = 3;
	p->heap_count = HEAPS;
	p->heap = array(p, HEAPS, sizeof(*p->heap));
	for (uint32_t i = 0; i < HEAPS; i++)
		p->heap[i].name = heaps[i];
	p->label_count = 2;
	p->label = array(p, 2, sizeof(*p->label));
	p->label[0] = "";
	p->label[1] = "boot";
	add_modules(p, o);
	add_nodes(p);
	add_sites(p, o);
	add_threads(p);
	p->live_count = p->totals.allocs - p->totals.frees;
	p->live_bytes = p->totals.bytes - p->totals.freed_bytes;
	p->block_count = p->heap[0].live_count;
	p->block_bytes = p->heap[0].live_bytes;
	p->peak_bytes = p->live_bytes + 100;
	p->peak_ns = 9 * SECOND;
	return p;
}

uint32_t fixture_node(const struct mt_profile *p, uint32_t site)
{
	return p->site[site].node;
}

static uint32_t frames(void *context, const struct mt_profile *p, uint32_t node,
		       struct mt_name *ret, uint32_t max)
{
	if (node >= NODES || !nodes[node].function || max < 2)
		return 0;
	if (node == 3) { /* load has a function inlined into it */
		ret[0] = (struct mt_name){
			.function = "read_all", .file = "load.c", .line = 7, .is_inlined = true};
		ret[1] = (struct mt_name){.function = "load", .file = "load.c", .line = 20};
		return 2;
	}
	ret[0] = (struct mt_name){.function = nodes[node].function,
				  .file = nodes[node].file,
				  .line = nodes[node].line};
	return 1;
}

const struct mt_names fixture_names = {.frames = frames};
