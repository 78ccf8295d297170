/* SPDX-License-Identifier: MIT */
/* What is live in the image comes from the tracker's table, read before and after; else the heap.
 */

#include "cli/leak_search.h"

#include "cli/tracked_blocks.h"

#include "base/alloc.h"
#include "base/arena.h"
#include "base/map.h"
#include "formats/mtk_read.h"
#include "wire/state.h"

#include <errno.h>
#include <stdlib.h>

void mt_leak_search_done(struct mt_leak_search *s)
{
	if (!s)
		return;
	mt_find_done(&s->find);
	mt_image_close(s->im);
	mt_loaded_done(&s->loaded);
	free(s->known);
	free(s->state);
}

static int open_image(struct mt_leak_search *s, struct mt_err *err)
{
	int code = s->pid ? mt_image_open_process(s->pid, MT_IMAGE_COPY, &s->im, &s->note)
			  : mt_image_open_core(s->core, &s->im, &s->note);

	if (code)
		return mt_err_set(err, code, "%s", s->note.text);
	if (mt_image_facts(s->im)->cut_bytes)
		return mt_err_set(err, -EBADMSG,
				  "%s, and all that only they point to would count as lost: the "
				  "search needs the whole core file",
				  s->note.text);
	return 0;
}

static int check_state(const struct mt_leak_search *s, const struct mt_profile *p,
		       struct mt_err *err)
{
	pid_t pid = mt_image_facts(s->im)->pid;

	if (s->pid || p->pid == pid)
		return 0;
	return mt_err_set(err, -EINVAL, "'%s' was recorded of process %d, the core file is of %d",
			  s->state, (int)p->pid, (int)pid);
}

int mt_leak_search_open(struct mt_leak_search *s, struct mt_err *err)
{
	mt_auto(mt_profile) struct mt_profile *before = NULL;
	struct mt_profile *after = NULL;
	int code = 0;

	if (s->pid && s->wants_cost && !s->earlier_stop_ns) /* we are small then */
		mt_copy_cost_measure(&s->cost);
	if (s->state && s->pid && !s->is_quiet)
		code = mt_mtk_read_addresses(s->state, &before, err);
	if (!code)
		code = open_image(s, err);
	if (!code && s->on_image)
		s->on_image(s->context);
	if (!code && s->state)
		code = mt_mtk_read_addresses(s->state, &after, err);
	if (code || !after)
		return code;
	if (mt_loaded_take(&s->loaded, after))
		return mt_err_no_memory(err);
	s->tracked = after;
	code = check_state(s, after, err);
	if (code)
		return code;
	s->is_table = mt_tracked_is_table(after);
	s->known = mt_tracked_blocks(before, after, &s->knowns);
	return s->known ? 0 : mt_err_no_memory(err);
}

int mt_leak_search_run(struct mt_leak_search *s, uint32_t flags, bool is_strict, struct mt_err *err)
{
	struct mt_find_input in = {
		.known = s->known,
		.knowns = s->knowns,
		.is_table = s->is_table,
		.flags = flags,
		.is_strict = is_strict,
	};
	struct mt_range own = {0};
	struct mt_state_header h;
	int code, gone;

	if (s->state && !mt_mtk_read_header(s->state, &h, NULL) && h.arena_bytes) {
		own = (struct mt_range){h.arena_address, h.arena_address + h.arena_bytes};
		in.own = &own;
		in.owns = own.start < own.end;
	}
	code = mt_find_run(s->im, &in, &s->find, err);
	gone = mt_image_is_there(s->im, err);
	return gone ? gone : code;
}

bool mt_leak_search_is_doubtful(const struct mt_leak_search *s)
{
	return s->pid && s->find.heap.damages_in_all &&
	       mt_image_facts(s->im)->source == MT_IMAGE_COPY;
}

void mt_leak_search_again(struct mt_leak_search *s)
{
	struct mt_leak_search fresh = {
		.pid = s->pid,
		.core = s->core,
		.state = s->state,
		.on_image = s->on_image,
		.context = s->context,
		.wants_cost = s->wants_cost,
		.cost = s->cost,
		.is_quiet = s->is_quiet,
		.earlier_stop_ns = s->earlier_stop_ns + mt_image_facts(s->im)->stop_ns,
	};

	s->state = NULL;
	mt_leak_search_done(s);
	*s = fresh;
}

void mt_leak_search_let_go(struct mt_leak_search *s)
{
	s->facts = *mt_image_facts(s->im);
	s->facts.stop_ns += s->earlier_stop_ns;
	s->facts.program = "";
	if (s->wants_cost)
		mt_copy_cost_count(&s->cost, &s->facts);
	mt_image_close(s->im);
	s->im = NULL;
}

static uint8_t mark_of(const struct mt_find *f, uint64_t address)
{
	size_t low = 0, high = f->blocks;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (f->block[middle].start < address)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == f->blocks || f->block[low].start != address)
		return MT_BLOCK_UNSEEN; /* made or freed meanwhile */
	return f->mark.state[low] == MT_MARK_LOST ? MT_BLOCK_LOST : MT_BLOCK_HELD;
}

int mt_leak_search_mark(struct mt_leak_search *s)
{
	struct mt_profile *p = s->tracked;
	struct mt_profile_look look = {
		.result = MT_PROFILE_LOOK_MADE,
		.is_expected = true,
		.has_heap = s->find.has_heap,
		.is_heap_damaged = s->find.heap.damages_in_all != 0,
		.ns = p->duration_ns,
		.stop_ns = s->facts.stop_ns,
		.count = s->find.fold.lost_count,
		.bytes = s->find.fold.lost_bytes,
	};

	p->block_mark = mt_arena_zalloc(p->arena, p->blocks + 1);
	if (!p->block_mark)
		return -ENOMEM;
	for (uint64_t i = 0; i < p->blocks; i++)
		if (p->block[i].heap == MT_HEAP_MALLOC && p->block_address)
			p->block_mark[i] = mark_of(&s->find, p->block_address[i]);
	p->look = look;
	return 0;
}

/* Whether a block of the table is a lost one, or a part of one, in the image. */
static bool is_lost(const struct mt_find *f, const struct mt_known *k)
{
	int64_t at = mt_range_find(f->block, f->blocks, k->address);

	return at != MT_RANGE_NONE && f->mark.state[at] == MT_MARK_LOST &&
	       k->bytes <= f->block[at].end - k->address;
}

static int by_lost_bytes(const void *a, const void *b)
{
	const struct mt_leaks_site *x = a, *y = b;

	if (x->lost.bytes < y->lost.bytes || x->lost.bytes > y->lost.bytes)
		return x->lost.bytes > y->lost.bytes ? -1 : 1;
	return x->site < y->site ? -1 : x->site > y->site;
}

static struct mt_leaks_site *site_at(struct mt_map *index, struct mt_leaks_site *sites,
				     size_t *count, uint32_t site)
{
	bool is_new;
	uint64_t *at = mt_map_at(index, site, &is_new);

	if (!at)
		return NULL;
	if (is_new) {
		*at = *count;
		sites[(*count)++] = (struct mt_leaks_site){.site = site};
	}
	return &sites[*at];
}

int mt_leak_search_sites(const struct mt_leak_search *s, struct mt_leaks_site **ret_sites,
			 size_t *ret_count)
{
	const struct mt_profile *p = s->tracked;
	mt_auto(mt_map) struct mt_map index = {0};
	mt_auto(free) struct mt_leaks_site *sites = mt_alloc_zero(s->knowns, sizeof(*sites));
	size_t count = 0;

	if (!sites)
		return -ENOMEM;
	for (size_t i = 0; p && mt_profile_is_sampled(p) && !s->is_table && i < s->knowns; i++) {
		const struct mt_known *k = &s->known[i];
		struct mt_leaks_site *at;

		if (!k->is_sure || !k->stack || !is_lost(&s->find, k))
			continue;
		at = site_at(&index, sites, &count, (uint32_t)k->stack);
		if (!at)
			return -ENOMEM;
		mt_estimate_add(&at->lost, mt_profile_sampling(p, &p->block[k->tag]), k->bytes);
		if (p->site_sample)
			at->lost.is_least |= p->site_sample[k->stack].lacks_blocks;
	}
	qsort(sites, count, sizeof(*sites), by_lost_bytes);
	*ret_count = count;
	*ret_sites = sites;
	sites = NULL;
	return 0;
}

struct mt_profile *mt_leak_search_take(struct mt_leak_search *s)
{
	struct mt_profile *p = s->tracked;

	s->loaded.count = 0;
	s->tracked = NULL;
	return p;
}
