/* SPDX-License-Identifier: MIT */
/* Errors on guarded blocks. Invariant as in mtk_fill.c: no index goes into the profile unchecked.
 */
#include "formats/mtk_guard.h"

#include <errno.h>

#include "base/arena.h"

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
		.node = checked(rd, a->node, rd->profile->node_count),
		.ns = mt_profile_clock_at(&rd->time.clock, a->unit),
	};
}

static bool is_known(const struct mt_state_error *e)
{
	return e->kind <= MT_ERROR_WILD && e->access <= MT_ACCESS_WRITE;
}

static void fill_error(struct mt_mtk_reader *rd, const struct mt_state_error *e)
{
	struct mt_profile *p = rd->profile;
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
	};
}

static void fill_pool(struct mt_mtk_reader *rd)
{
	const struct mt_state_header *h = &rd->raw.header;
	struct mt_profile *p = rd->profile;
	p->guard_slots = h->guard_slots;
	p->guard_bytes = (uint64_t)h->guard_slots * h->guard_page_bytes;
	p->guard_placed = h->guard_placed;
	p->guard_refused = h->guard_refused;
}

int mt_mtk_fill_errors(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;
	uint32_t count = MT_MIN(rd->raw.error_count, (uint32_t)MT_ERRORS_MAX);
	fill_pool(rd);
	p->error = mt_arena_array(p->arena, count, sizeof(*p->error));
	if (count && !p->error)
		return -ENOMEM;
	for (uint32_t i = 1; i < count; i++) {
		const struct mt_state_error *e = &rd->raw.error[i];
		if (!e->kind)
			continue;
		if (is_known(e))
			fill_error(rd, e);
		else
			rd->damage[MT_MTK_BAD_ERROR]++;
	}
	return 0;
}
