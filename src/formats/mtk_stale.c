/* SPDX-License-Identifier: MIT */
#include "formats/mtk_stale.h"

#include "core/hash.h"

void mt_mtk_stale_done(struct mt_mtk_stale *s)
{
	mt_map_done(&s->large);
	mt_map_done(&s->gone);
}

static uint32_t filter_bit(uint64_t place)
{
	return (uint32_t)(mt_hash_u64(place) >> 50); /* of 2^14 */
}

/* Another block at the same address has another one. */
static uint64_t identity(const struct mt_state_large *l)
{
	return (uint64_t)l->sequence << 32 | l->unit;
}

int mt_mtk_stale_note_large(struct mt_mtk_stale *s, const struct mt_state_large *l)
{
	uint32_t bit = filter_bit(l->place);
	if (!l->place || l->heap != MT_HEAP_MALLOC)
		return 0;
	s->filter[bit / 64] |= 1ull << bit % 64;
	return mt_map_set(&s->large, l->place, identity(l));
}

int mt_mtk_stale_note_small(struct mt_mtk_stale *s, uint64_t place)
{
	uint64_t which;
	if (!s->large.count)
		return 0;
	uint32_t bit = filter_bit(place);
	if (!(s->filter[bit / 64] >> bit % 64 & 1) || !mt_map_get(&s->large, place, &which))
		return 0;
	return mt_map_set(&s->gone, place, which);
}

bool mt_mtk_stale_is_gone(struct mt_mtk_stale *s, const struct mt_state_large *l)
{
	uint64_t which;
	bool gone = s->gone.count && l->heap == MT_HEAP_MALLOC &&
		    mt_map_get(&s->gone, l->place, &which) && which == identity(l);
	s->count += gone;
	return gone;
}
