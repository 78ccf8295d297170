/* SPDX-License-Identifier: MIT */
#include "runtime/lost_blocks.h"

#include "runtime/storage.h"

/* The table is in order of addresses; who wrote it is another process, so indexes are bounded. */
static uint32_t leaks_at(const struct mt_state_unreached *all, uint64_t count, uint64_t place)
{
	uint64_t low = 1, high = count;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (all[middle].place < place)
			low = middle + 1;
		else
			high = middle;
	}
	return low < count && all[low].place == place ? all[low].leaks : 0;
}

static uint64_t table_size(void)
{
	const struct mt_state_region *r = mt_rt.region[MT_REGION_UNREACHED];
	uint64_t used = __atomic_load_n(&r->used, __ATOMIC_ACQUIRE);
	return MT_MIN(used, r->capacity);
}

uint32_t mt_lost_blocks(struct mt_lost_block *ret_blocks, uint32_t most)
{
	const struct mt_state_unreached *all = mt_storage_base(MT_REGION_UNREACHED);
	struct mt_leak_list list;
	uint64_t count = table_size();
	uint32_t n = 0;
	if (count < 2 || mt_leak_list_make(/* at_exit */ 0, &list))
		return 0;
	for (uint64_t i = 0; i < list.count && n < most; i++) {
		uint32_t leaks = leaks_at(all, count, list.leak[i].place);
		if (leaks)
			ret_blocks[n++] = (struct mt_lost_block){list.leak[i], leaks};
	}
	mt_leak_list_done(&list);
	return n;
}

uint64_t mt_lost_blocks_live(uint64_t *ret_bytes)
{
	struct mt_leak_list list;
	*ret_bytes = 0;
	if (mt_leak_list_make(/* at_exit */ 0, &list))
		return 0;
	for (uint64_t i = 0; i < list.count; i++)
		*ret_bytes += list.leak[i].size;
	uint64_t count = list.count;
	mt_leak_list_done(&list);
	return count;
}
