/* SPDX-License-Identifier: MIT */
/* Lifetime of a profile and walks over it. Every table has its element 0, so lookups need no
 * branch. */
#include "model/profile.h"

#include <stdarg.h>
#include <string.h>

#include "base/arena.h"

void mt_profile_free(struct mt_profile *p)
{
	if (p)
		mt_arena_free(p->arena); /* p itself lies in it */
}

static int make_tables(struct mt_profile *p)
{
	p->module = mt_arena_array(p->arena, 1, sizeof(*p->module));
	p->node = mt_arena_array(p->arena, 1, sizeof(*p->node));
	p->site = mt_arena_array(p->arena, 1, sizeof(*p->site));
	p->cell = mt_arena_array(p->arena, 1, sizeof(*p->cell));
	p->cell_by_site = mt_arena_array(p->arena, 1, sizeof(*p->cell_by_site));
	p->thread = mt_arena_array(p->arena, 1, sizeof(*p->thread));
	p->heap = mt_arena_array(p->arena, 1, sizeof(*p->heap));
	p->label = mt_arena_array(p->arena, 1, sizeof(*p->label));
	p->block = mt_arena_array(p->arena, 1, sizeof(*p->block));
	p->hist = mt_arena_array(p->arena, 1, sizeof(*p->hist));
	p->warning = mt_arena_array(p->arena, 1, sizeof(*p->warning));
	p->regime = mt_arena_array(p->arena, 1, sizeof(*p->regime));
	if (!p->module || !p->node || !p->site || !p->cell || !p->cell_by_site || !p->thread ||
	    !p->heap || !p->label || !p->block || !p->hist || !p->warning || !p->regime)
		return -1;
	p->module[0].path = "";
	p->heap[0].name = "malloc";
	p->label[0] = "";
	p->module_count = p->node_count = p->site_count = p->cell_count = p->thread_count = 1;
	p->heap_count = p->label_count = p->hist_count = p->regime_count = 1;
	p->clock.tick_delta = 1;
	return 0;
}

struct mt_profile *mt_profile_new(void)
{
	struct mt_arena *arena = mt_arena_new();
	if (!arena)
		return NULL;
	struct mt_profile *p = mt_arena_zalloc(arena, sizeof(*p));
	if (!p) {
		mt_arena_free(arena);
		return NULL;
	}
	p->arena = arena;
	p->exe = p->cmdline = p->output = p->options = "";
	if (make_tables(p)) {
		mt_arena_free(arena);
		return NULL;
	}
	return p;
}

uint32_t mt_profile_stack(const struct mt_profile *p, uint32_t node, uint32_t *ret_nodes,
			  uint32_t max)
{
	uint32_t count = 0;
	/* depth falls with every step, so a table that is wrong cannot make a circle of this */
	while (count < max && node < p->node_count && p->node[node].depth) {
		ret_nodes[count++] = node;
		uint32_t parent = p->node[node].parent;
		if (parent >= p->node_count || p->node[parent].depth >= p->node[node].depth)
			break;
		node = parent;
	}
	return count;
}

bool mt_profile_is_same_process(const struct mt_profile *a, const struct mt_profile *b)
{
	return a->pid == b->pid && a->proc_start_ticks == b->proc_start_ticks &&
	       a->wall_start_ns == b->wall_start_ns &&
	       !memcmp(a->boot_id, b->boot_id, sizeof(a->boot_id));
}

bool mt_profile_is_sampled(const struct mt_profile *p)
{
	for (uint32_t i = 1; i < p->regime_count; i++)
		if (mt_sampling_is_partial(&p->regime[i].sampling))
			return true;
	return false;
}

uint64_t mt_profile_recorded(const struct mt_profile *p, uint32_t site)
{
	return p->site[site].regime ? p->site_sample[site].allocs : p->site[site].counts.allocs;
}

struct mt_flow mt_profile_flow(const struct mt_profile *p, uint32_t site)
{
	const struct mt_profile_site *s = &p->site[site];
	const struct mt_profile_sample *sample = s->regime ? &p->site_sample[site] : NULL;
	struct mt_flow f = {0};

	if (!sample) {
		f.live = mt_estimate_of_all(s->live_count, s->live_bytes);
		return f;
	}
	f.live = sample->live;
	f.freed = mt_estimate_since(&sample->live, &sample->total);
	/* what has no block: by the block table it was freed, by the counters it never is */
	f.freed.is_least |= sample->lacks_blocks;
	f.freed.is_most |= sample->lacks_blocks;
	return f;
}

void mt_profile_mark_flow(const struct mt_profile *p, uint32_t site, struct mt_flow *flow)
{
	const struct mt_profile_sample *s = &p->site_sample[site];

	flow->live.is_least |= s->total.is_least;
	flow->freed.is_least |= s->total.is_least || s->lacks_blocks;
	flow->live.is_most |= s->lacks_blocks;
}

const struct mt_sampling *mt_profile_sampling(const struct mt_profile *p,
					      const struct mt_profile_block *b)
{
	return &p->regime[p->site[p->cell[b->cell].site].regime].sampling;
}

static void add_cell_sizes(const struct mt_profile *p, uint32_t cell, uint64_t *sizes,
			   uint64_t *missing)
{
	const struct mt_profile_cell *c = &p->cell[cell];
	uint64_t known = 0, allocs = c->counts.allocs;

	if (p->cell_sample && p->site[c->site].regime)
		allocs = p->cell_sample[cell].allocs;
	if (c->hist && c->hist < p->hist_count) {
		for (unsigned i = 0; i < MT_PROFILE_SIZES; i++) {
			sizes[i] += p->hist[c->hist][i];
			known += p->hist[c->hist][i];
		}
	} else if (c->size_bucket < MT_PROFILE_SIZES) {
		known = allocs;
		sizes[c->size_bucket] += known;
	}
	*missing += allocs > known ? allocs - known : 0;
}

void mt_profile_add_sizes(const struct mt_profile *p, uint32_t site,
			  uint64_t sizes[MT_PROFILE_SIZES], uint64_t *missing)
{
	const struct mt_profile_site *s = &p->site[site];
	for (uint32_t i = 0; i < s->cell_count; i++)
		add_cell_sizes(p, p->cell_by_site[s->first_cell + i], sizes, missing);
}

void mt_profile_add_lives(const struct mt_profile *p, uint32_t site,
			  uint64_t lives[MT_PROFILE_LIVES])
{
	const struct mt_profile_site *s = &p->site[site];
	for (uint32_t i = 0; i < s->cell_count; i++)
		for (unsigned k = 0; k < MT_PROFILE_LIVES; k++)
			lives[k] += p->cell[p->cell_by_site[s->first_cell + i]].lifetime[k];
}

/* The array grows when its count is a power of two; old ones stay in the arena. */
static int grow_warnings(struct mt_profile *p)
{
	uint32_t n = p->warning_count;
	if (n & (n - 1))
		return 0;
	const char **bigger = mt_arena_array(p->arena, n ? 2 * (size_t)n : 1, sizeof(*bigger));
	if (!bigger)
		return -1;
	if (n)
		memcpy(bigger, p->warning, n * sizeof(*bigger));
	p->warning = bigger;
	return 0;
}

void mt_profile_warn(struct mt_profile *p, const char *fmt, ...)
{
	va_list ap;
	char *text = NULL;
	if (p->warning_count < MT_PROFILE_WARNINGS_MAX && !grow_warnings(p)) {
		va_start(ap, fmt);
		text = mt_arena_vprintf(p->arena, fmt, ap);
		va_end(ap);
	}
	if (text)
		p->warning[p->warning_count++] = text;
	else
		p->warnings_dropped++;
}
