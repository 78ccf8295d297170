/* SPDX-License-Identifier: MIT */
#include "formats/mtk_look.h"

#include "base/arena.h"

#include <errno.h>
#include <stdlib.h>

_Static_assert(MT_LOOK_MADE == (int)MT_PROFILE_LOOK_MADE, "same numbers");
_Static_assert(MT_LOOK_FAILED == (int)MT_PROFILE_LOOK_FAILED, "same numbers");

static int compare(const void *a, const void *b)
{
	const struct mt_state_unreached *x = a, *y = b;

	return x->place < y->place ? -1 : x->place > y->place;
}

static bool is_sorted(const struct mt_state_unreached *all, uint32_t count)
{
	for (uint32_t i = 1; i < count; i++)
		if (all[i - 1].place > all[i].place)
			return false;
	return true;
}

void mt_mtk_look_take(struct mt_mtk_reader *rd, struct mt_state_unreached *all, uint32_t count)
{
	rd->lost = all;
	rd->lost_count = count;
	rd->lost_next = 0;
	if (!is_sorted(all, count))
		qsort(all, count, sizeof(*all), compare);
}

/* The next in order mostly: blocks that were made one after another lie so. */
bool mt_mtk_look_has(struct mt_mtk_reader *rd, uint64_t place, uint32_t unit)
{
	const struct mt_state_unreached key = {.place = place}, *at = rd->lost + rd->lost_next;

	if (rd->lost_next >= rd->lost_count || at->place != place)
		at = bsearch(&key, rd->lost, rd->lost_count, sizeof(key), compare);
	if (!at)
		return false;
	rd->lost_next = (uint32_t)(at - rd->lost) + 1;
	return at->unit == unit;
}

static void fill_facts(struct mt_mtk_reader *rd)
{
	const struct mt_state_header *h = &rd->raw.header;
	struct mt_profile_look *look = &rd->profile->look;

	look->result = h->look_result;
	if (look->result > MT_LOOK_FAILED)
		look->result = MT_LOOK_FAILED;
	look->is_expected =
		h->version_minor >= MT_STATE_LOOKS && rd->blocks &&
		(h->mode == MT_MODE_FULL || h->mode == MT_MODE_CHECK || h->mode == MT_MODE_RECORD);
	look->has_heap = !(h->look_flags & MT_LOOK_NO_HEAP);
	look->is_heap_damaged = h->look_flags & MT_LOOK_HEAP_DAMAGED;
	look->ns = mt_profile_clock_at(&rd->time.clock, h->look_unit);
	look->stop_ns = h->look_stop_ns;
	look->count = h->look_count;
	look->bytes = h->look_bytes;
}

/* Times wrap around after weeks: what seems younger is asked again, of the clock. */
static bool is_younger(struct mt_mtk_reader *rd, uint32_t born)
{
	return (int32_t)(rd->raw.header.look_unit - born) < 0 &&
	       mt_profile_clock_at(&rd->time.clock, born) > rd->profile->look.ns;
}

int mt_mtk_fill_look(struct mt_mtk_reader *rd)
{
	struct mt_profile *p = rd->profile;

	fill_facts(rd);
	if (!rd->block_mark) {
		if (rd->blocks &&
		    p->look.result == MT_LOOK_MADE) /* it was made while the file was read */
			p->look = (struct mt_profile_look){0};
		return 0;
	}
	for (size_t i = 0; i < rd->blocks; i++)
		if (rd->block[i].heap != MT_HEAP_MALLOC || is_younger(rd, rd->block[i].born))
			rd->block_mark[i] = MT_BLOCK_UNSEEN;
	p->block_mark = rd->block_mark;
	if (mt_arena_adopt(p->arena, rd->block_mark)) {
		p->block_mark = NULL;
		return -ENOMEM;
	}
	rd->block_mark = NULL;
	return 0;
}
