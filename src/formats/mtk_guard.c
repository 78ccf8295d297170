/* SPDX-License-Identifier: MIT */
/* Errors on guarded and checked blocks. Invariant as in mtk_fill.c: no index goes into the profile
 * unchecked. */
#include "formats/mtk_guard.h"

#include <errno.h>
#include <string.h>

#include "base/arena.h"

_Static_assert((int)MT_PROFILE_WINDOW == sizeof(((struct mt_state_damage *)0)->window),
	       "the profile holds the whole window");

static uint32_t checked(struct mt_mtk_reader *rd, uint32_t index, uint32_t count)
{
	if (index < count)
		return index;
	rd->damage[MT_MTK_BAD_ERROR]++;
	return 0;
}

static struct mt_profile_actor actor_of(struct mt_mtk_reader *rd, const struct mt_state_actor *a)
{
	if (!a->tid)
		return (struct mt_profile_actor){0};
	return (struct mt_profile_actor){
		.tid = a->tid,
		.thread = checked(rd, a->thread, rd->profile->thread_count),
		.node = checked(rd, a->node, rd->raw.node_count),
		.ns = mt_profile_clock_at(&rd->time.clock, a->unit),
	};
}

static bool is_known(const struct mt_state_error *e)
{
	return e->kind <= MT_ERROR_HEADER && e->access <= MT_ACCESS_WRITE;
}

/* ---- bytes ---- */

/* Numbers that agree with each other. */
static bool can_be(const struct mt_state_damage *d)
{
	if (d->window_bytes > sizeof(d->window) ||
	    d->window_start > UINT64_MAX - sizeof(d->window) || d->expected > UINT8_MAX)
		return false;
	if (!d->first)
		return !d->last && !d->count;
	return d->first <= d->last && d->count && d->count - 1 <= d->last - d->first;
}

static struct mt_profile_neighbour neighbour_of(struct mt_mtk_reader *rd,
						const struct mt_state_neighbour *n)
{
	if (!n->start)
		return (struct mt_profile_neighbour){0};
	return (struct mt_profile_neighbour){
		.start = n->start,
		.bytes = n->bytes,
		.node = checked(rd, n->node, rd->raw.node_count),
		.is_freed = n->is_freed,
	};
}

/* The module at an address, if possible one that is still there; 0: none. */
static uint32_t module_at(const struct mt_profile *p, uint64_t address)
{
	uint32_t found = 0;
	for (uint32_t i = 1; i < p->module_count; i++) {
		const struct mt_profile_module *m = &p->module[i];
		if (address >= m->lo && address < m->hi && (!found || !m->unloaded_ns))
			found = i;
	}
	return found;
}

/* A frame for the address that the first changed word holds, so that it gets a name. */
static uint32_t node_of_word(struct mt_profile *p, const struct mt_state_damage *d)
{
	uint64_t at = (d->first & ~(uint64_t)7) - d->window_start, word;
	if (!d->first || at > d->window_bytes || d->window_bytes - at < sizeof(word))
		return 0;
	memcpy(&word, d->window + at, sizeof(word));
	uint32_t module = module_at(p, word);
	if (!module)
		return 0;
	p->node[p->node_count] = (struct mt_profile_node){
		.pc = word + 1,
		.parent = MT_PROFILE_END_COMPLETE,
		.module = module,
		.depth = 1,
		.kind = MT_FRAME_EXACT,
		.end = MT_PROFILE_END_COMPLETE,
	};
	return p->node_count++;
}

/* 0 or -ENOMEM; *ret_damage stays NULL when there is none. */
static int fill_damage(struct mt_mtk_reader *rd, uint32_t number,
		       const struct mt_profile_damage **ret_damage)
{
	const struct mt_state_damage *d = &rd->raw.damage[number];
	if (!number)
		return 0;
	if (!can_be(d)) {
		rd->damage[MT_MTK_BAD_ERROR]++;
		return 0;
	}
	struct mt_profile_damage *to = mt_arena_zalloc(rd->profile->arena, sizeof(*to));
	if (!to)
		return -ENOMEM;
	*to = (struct mt_profile_damage){
		.first = d->first,
		.last = d->last,
		.count = d->count,
		.expected = (uint8_t)d->expected,
		.word_node = node_of_word(rd->profile, d),
		.window_start = d->window_start,
		.window_bytes = d->window_bytes,
		.before = neighbour_of(rd, &d->before),
		.after = neighbour_of(rd, &d->after),
	};
	memcpy(to->window, d->window, d->window_bytes);
	*ret_damage = to;
	return 0;
}

/* ---- errors ---- */

static int fill_error(struct mt_mtk_reader *rd, const struct mt_state_error *e)
{
	struct mt_profile *p = rd->profile;
	const struct mt_profile_damage *damage = NULL;
	int r = fill_damage(rd, checked(rd, e->damage, rd->raw.damage_count), &damage);
	if (r)
		return r;
	p->error[p->error_count++] = (struct mt_profile_error){
		.kind = e->kind,
		.access = e->access,
		.flags = e->flags,
		.signal = e->signal,
		.address = e->address,
		.block = e->block,
		.block_bytes = e->block_bytes,
		.pc = e->pc,
		.use = actor_of(rd, &e->use),
		.alloc = actor_of(rd, &e->alloc),
		.free = actor_of(rd, &e->free),
		.call = checked(rd, e->call, MT_CALL_USABLE_SIZE + 1),
		.alloc_call = checked(rd, e->alloc_call, MT_CALL_USABLE_SIZE + 1),
		.tag = e->tag,
		.damage = damage,
	};
	return 0;
}

static void fill_pool(struct mt_mtk_reader *rd)
{
	const struct mt_state_header *h = &rd->raw.header;
	struct mt_profile *p = rd->profile;
	p->guard_slots = h->guard_slots;
	p->guard_bytes =
		h->guard_bytes ? h->guard_bytes : (uint64_t)h->guard_slots * h->guard_page_bytes;
	p->guard_placed = h->guard_placed;
	p->guard_refused = h->guard_refused;
}

int mt_mtk_fill_errors(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	uint32_t count = rd->raw.error_count;
	int r = 0;
	fill_pool(rd);
	p->error = mt_arena_array(p->arena, count, sizeof(*p->error));
	if (count && !p->error)
		return -ENOMEM;
	for (uint32_t i = 1; i < count && !r; i++) {
		const struct mt_state_error *e = &rd->raw.error[i];
		if (!e->kind)
			continue;
		if (is_known(e))
			r = fill_error(rd, e);
		else
			rd->damage[MT_MTK_BAD_ERROR]++;
	}
	return r;
}
