/* SPDX-License-Identifier: MIT */
/* An entry is a block's index + 1: the first block that reaches into the 256 bytes; 0: none does.
 */

#include "reach/blockmap.h"

#include "base/alloc.h"

#include <errno.h>

static int check(const struct mt_range *block, size_t count)
{
	if (count > MT_BLOCKMAP_BLOCKS_MAX)
		return -E2BIG;
	for (size_t i = 0; i < count; i++)
		if (block[i].start >= block[i].end || (i && block[i].start < block[i - 1].end))
			return -EINVAL;
	return 0;
}

static int enter(struct mt_blockmap *m, uint32_t index)
{
	const struct mt_range *b = &m->block[index];
	uint64_t last = (b->end - 1) >> MT_BLOCKMAP_LG_GRANULE;

	for (uint64_t g = b->start >> MT_BLOCKMAP_LG_GRANULE; g <= last; g++) {
		uint64_t address = g << MT_BLOCKMAP_LG_GRANULE;
		uint32_t **t = &m->table[(address >> MT_BLOCKMAP_LG_TABLE) - m->first_table];
		uint32_t *entry;

		if (!*t)
			*t = mt_alloc_zero(
				(size_t)1 << (MT_BLOCKMAP_LG_TABLE - MT_BLOCKMAP_LG_GRANULE),
				sizeof(**t));
		if (!*t)
			return -ENOMEM;
		entry = *t + mt_blockmap_slot(address);
		if (!*entry)
			*entry = index + 1;
	}
	return 0;
}

int mt_blockmap_init(struct mt_blockmap *m, const struct mt_range *block, size_t count)
{
	int code = check(block, count);

	*m = (struct mt_blockmap){.block = block, .count = count};
	if (code || !count)
		return code;
	m->low = block[0].start;
	m->span = block[count - 1].end - m->low;
	m->first_table = m->low >> MT_BLOCKMAP_LG_TABLE;
	m->tables = ((block[count - 1].end - 1) >> MT_BLOCKMAP_LG_TABLE) - m->first_table + 1;
	m->table = mt_alloc_zero((size_t)m->tables, sizeof(*m->table));
	if (!m->table)
		return -ENOMEM;
	for (size_t i = 0; i < count && !code; i++)
		code = enter(m, (uint32_t)i);
	if (code)
		mt_blockmap_done(m);
	return code;
}

void mt_blockmap_done(struct mt_blockmap *m)
{
	if (!m)
		return;
	for (uint64_t i = 0; m->table && i < m->tables; i++)
		free(m->table[i]);
	free(m->table);
	*m = (struct mt_blockmap){0};
}
