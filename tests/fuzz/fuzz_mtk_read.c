/* SPDX-License-Identifier: MIT */
/* Any bytes as a state file: read, and everything that the profile names is looked at. */
#include <stdlib.h>
#include <string.h>

#include "formats/mtk_read.h"
#include "wire/state.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes);

static void look_at_sites(const struct mt_profile *p)
{
	uint32_t nodes[300];
	for (uint32_t i = 0; i < p->site_count; i++) {
		const struct mt_profile_site *s = &p->site[i];
		uint32_t count = mt_profile_stack(p, s->node, nodes, 300);
		for (uint32_t k = 0; k < count; k++)
			if (p->node[nodes[k]].module >= p->module_count)
				abort();
		if (s->heap >= p->heap_count || s->label >= p->label_count ||
		    s->regime >= p->regime_count || (s->regime && !p->site_sample) ||
		    strlen(p->label[s->label]) > 1 << 24)
			abort();
		if ((uint64_t)s->first_cell + s->cell_count > p->cell_count)
			abort();
		for (uint32_t k = 0; k < s->cell_count; k++)
			if (p->cell[p->cell_by_site[s->first_cell + k]].site != i)
				abort();
	}
}

/* Whatever the numbers are, an interval is one. */
static void look_at_interval(struct mt_interval i)
{
	if (!(i.low <= i.high) && i.low == i.low && i.high == i.high)
		abort();
}

static void look_at_modes(const struct mt_profile *p)
{
	for (uint32_t i = 0; p->site_sample && i < p->site_count; i++) {
		const struct mt_profile_sample *s = &p->site_sample[i];
		look_at_interval(mt_estimate_bytes(&s->total));
		look_at_interval(mt_estimate_count(&s->total));
		look_at_interval(mt_estimate_bytes(&s->live));
		look_at_interval(mt_estimate_count(&s->live));
	}
	for (uint32_t i = 0; i < p->big_count; i++)
		if (p->big[i].thread >= p->thread_count)
			abort();
	for (uint32_t i = 0; i < p->change_count; i++)
		if (p->change[i].thread >= p->thread_count || strlen(p->change[i].text) > 1 << 24)
			abort();
}

static void look_at_actor(const struct mt_profile *p, const struct mt_profile_actor *a)
{
	if (a->thread >= p->thread_count || a->node >= p->node_count || (!a->tid && a->node))
		abort();
}

static void look_at_damage(const struct mt_profile *p, const struct mt_profile_damage *d)
{
	if (d->word_node >= p->node_count || d->before.node >= p->node_count ||
	    d->after.node >= p->node_count || d->window_bytes > sizeof(d->window) ||
	    d->first > d->last || (!d->first && d->count) ||
	    d->window_start + d->window_bytes < d->window_start)
		abort();
}

static void look_at_errors(const struct mt_profile *p)
{
	for (uint32_t i = 0; i < p->error_count; i++) {
		const struct mt_profile_error *e = &p->error[i];
		look_at_actor(p, &e->use);
		look_at_actor(p, &e->alloc);
		look_at_actor(p, &e->free);
		if (!e->kind || e->kind > MT_ERROR_HEADER || e->access > MT_ACCESS_WRITE ||
		    e->call > MT_CALL_USABLE_SIZE || e->alloc_call > MT_CALL_USABLE_SIZE)
			abort();
		if (e->damage)
			look_at_damage(p, e->damage);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes)
{
	struct mt_profile *p = NULL;
	struct mt_err err;
	if (mt_mtk_read_memory(data, size_bytes, "fuzz", &p, &err)) {
		if (!err.code || !err.text[0])
			abort();
		return 0;
	}
	look_at_sites(p);
	look_at_modes(p);
	look_at_errors(p);
	for (uint64_t i = 0; i < p->blocks; i++)
		if (p->block[i].cell >= p->cell_count || p->block[i].heap >= p->heap_count)
			abort();
	for (uint32_t i = 0; i < p->module_count; i++)
		if (strlen(p->module[i].path) > 1 << 24 || p->module[i].build_id_bytes > 32)
			abort();
	mt_profile_free(p);
	return 0;
}
