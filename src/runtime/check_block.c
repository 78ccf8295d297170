/* SPDX-License-Identifier: MIT */
/* Headers and guards of check mode's blocks; see check_block.h. */
#include "runtime/check_block.h"

#include "core/clock.h"
#include "core/sys.h"

struct mt_layout mt_layout;

void mt_layout_begin(const struct mt_check_options *o)
{
	struct mt_layout *l = &mt_layout;
	/* which blocks are left out by who made them is to be known when they are freed */
	int is_choosy = (o->only_modules[0] || o->only_sites[0]) &&
			o->flags & (MT_CHECK_FREE_TRACK | MT_CHECK_FILL_ON_FREE);
	l->has_header = is_choosy || (o->flags & (MT_CHECK_FRONT_GUARD | MT_CHECK_REAR_GUARD)) != 0;
	l->front = o->flags & MT_CHECK_FRONT_GUARD ? o->front_guard : 0;
	l->rear = o->flags & MT_CHECK_REAR_GUARD ? o->rear_guard : 0;
	l->before = l->has_header ? MT_HEADER_BYTES + l->front : 0;
	l->extra = (uint64_t)l->before + l->rear;
	if (o->flags & MT_CHECK_EXPAND_ALLOC)
		l->extra += o->expand;
	if (mt_sys_getrandom(&l->secret, sizeof(l->secret)) != sizeof(l->secret))
		l->secret = mt_clock_ticks() * 0x9e3779b97f4a7c15u;
}

uint32_t mt_layout_granule(void)
{
	enum { MOST = 6 /* reports look for neighbours in such steps */ };
	uint32_t shift = mt_provider.granule_shift;
	while (mt_layout.has_header && shift < MOST && (uint64_t)2 << shift <= mt_layout.extra)
		shift++;
	return shift;
}

uint64_t mt_block_usable(const void *p, void *original, size_t size)
{
	size_t (*usable)(const void *) = mt_original[MT_FAMILY_PLAIN].malloc_usable_size;
	uint64_t all = usable ? usable(original) : 0, before = (uintptr_t)p - (uintptr_t)original;
	return MT_MAX(all > before ? all - before : 0, (uint64_t)size);
}

static void seal(struct mt_header *h, const void *p)
{
	h->seal = mt_header_seal(h, p);
	h->tag = MT_TAG_LIVE;
}

void mt_header_mark(struct mt_header *h, const void *p, uint32_t flags)
{
	h->flags |= flags;
	seal(h, p);
}

void mt_block_resize(void *p, size_t size)
{
	struct mt_header *h = mt_header_of(p);
	h->size = size;
	h->flags &= ~(uint32_t)MT_HEADER_REAR_TOLD;
	if (mt_layout.rear) {
		h->usable = size;
		if (!(h->flags & MT_HEADER_UNCHECKED))
			mt_mem_fill((char *)p + size, MT_BYTE_REAR, mt_layout.rear);
	}
	seal(h, p);
}

struct mt_changed mt_bytes_changed(const void *from, size_t len, uint8_t byte, const void *origin)
{
	struct mt_changed c = {0, 0, 0};
	const unsigned char *at = from;
	size_t i = mt_mem_differs(at, byte, len);
	if (MT_LIKELY(i == len))
		return c;
	int64_t base = (int64_t)((uintptr_t)from - (uintptr_t)origin);
	c.first = base + (int64_t)i;
	for (; i < len; i++)
		if (at[i] != byte) {
			c.last = base + (int64_t)i;
			c.count++;
		}
	return c;
}

struct mt_changed mt_block_front(const void *p)
{
	return mt_bytes_changed((const char *)p - mt_layout.front, mt_layout.front, MT_BYTE_FRONT,
				p);
}

struct mt_changed mt_block_rear(const void *p, size_t size)
{
	return mt_bytes_changed((const char *)p + size, mt_layout.rear, MT_BYTE_REAR, p);
}
