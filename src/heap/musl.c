/* SPDX-License-Identifier: MIT */
/*
 * Reads the heap of musl's mallocng from outside. Its context holds a secret, and so does each page
 * of group descriptors: this proves both, without symbols. Blocks are slots of groups; a
 * descriptor's masks say which are free, the bytes before a block how long it is. docs/heaps.md has
 * a drawing.
 */

#include "heap/build.h"

#include "base/map.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

enum {
	UNIT = 16,
	TAIL = 4, /* bytes at the end of a slot that belong to the next one's header */
	CLASSES = 48,
	CLASS_SINGLE = 63, /* a group of one slot, as long as its mapping */
	AREA_HEADER = 24,
	AREA_BYTES = 4096,
	AREAS_MAX = 1 << 24,
	MARK_NESTED = 6, /* in a slot's header: a group of smaller slots lies in it */
	MARK_MOVED = 7,  /* the block begins further behind */
	MARK_LONG = 5,   /* the unused bytes are counted in the slot's last word */
};

static const uint16_t class_units[CLASSES] = {
	1,   2,   3,   4,    5,    6,    7,    8,    9,    10,   12,   15,   18,   20,   25,   31,
	36,  42,  50,  63,   72,   84,   102,  127,  146,  170,  204,  255,  292,  340,  409,  511,
	584, 682, 818, 1023, 1169, 1364, 1637, 2047, 2340, 2730, 3276, 4095, 4680, 5460, 6552, 8191,
};

/* The descriptor of a group, as it lies in memory. */
struct meta {
	uint64_t before, next, group;
	uint32_t avail_mask, freed_mask;
	uint64_t bits; /* last_idx 5, freeable 1, sizeclass 6, pages 52 */
};
_Static_assert(sizeof(struct meta) == 40, "as struct meta");

struct musl {
	struct mt_heap_build *b;
	uint64_t context, secret, first_area, last_area;
	struct mt_map *areas; /* all of them, seen */
};

struct group {
	uint64_t meta, address, storage;
	uint64_t stride;
	unsigned slots;
	uint32_t free_mask;
	uint64_t pages; /* of its mapping; 0: it lies in a slot, or in memory left over by a library
			 */
	bool is_single;
};

/* ---- the context ---- */

/* Where the pointers to the first and the last area lie: with or without a page size before. */
static const size_t at_area_head[] = {56, 64};

static bool is_context(struct mt_peek *p, const uint8_t *data, size_t at_head, struct musl *m)
{
	uint64_t words[2], check;

	memcpy(&m->secret, data, sizeof(m->secret));
	memcpy(words, data + at_head, sizeof(words));
	m->first_area = words[0];
	m->last_area = words[1];
	return m->secret && words[0] && words[1] && !(words[0] & (AREA_BYTES - 1)) &&
	       !(words[1] & (AREA_BYTES - 1)) && !mt_peek_u64(p, words[0], &check) &&
	       check == m->secret && !mt_peek_u64(p, words[1], &check) && check == m->secret;
}

static int find_in_segment(struct musl *m, const struct mt_image_segment *s)
{
	size_t bytes;
	mt_auto(free) uint8_t *data = mt_heap_segment_bytes(m->b->im, s, &bytes);

	if (!data)
		return -ENOMEM;
	for (size_t at = 0; at + 96 <= bytes; at += 8)
		for (size_t i = 0; i < MT_ARRAY_LEN(at_area_head); i++)
			if (is_context(&m->b->peek, data + at, at_area_head[i], m)) {
				m->context = s->start + at;
				return 0;
			}
	return -ENOENT;
}

static int find_context(struct musl *m, const struct mt_image_module *module, struct mt_err *err)
{
	for (uint32_t i = 0; i < module->segment_count; i++) {
		int code = module->segments[i].flags & MT_MAPPING_WRITE
				   ? find_in_segment(m, &module->segments[i])
				   : -ENOENT;

		if (code == -ENOMEM)
			return mt_err_no_memory(err);
		if (!code)
			return 0;
	}
	return mt_err_set(err, -ENOTSUP,
			  "nothing in '%s' is built as the heap of musl 1.2.1 or later (mallocng) "
			  "is: it is older, another one, or was not used yet",
			  module->path);
}

/* ---- blocks ---- */

static void count_free(struct musl *m, uint64_t bytes, uint64_t address)
{
	struct mt_heap_arena *a = &m->b->h->arenas[0];
	const uint64_t page = m->b->page_bytes;
	uint64_t from = MT_ALIGN_UP(address, page), to = MT_ALIGN_DOWN(address + bytes, page);

	a->free_blocks++;
	a->free_bytes += bytes;
	a->free_page_bytes += to > from ? to - from : 0;
}

/*
 * The header before what would be a block at `p` of slot `slot`: index, distance from the group's
 * start, and length. 0, or -EINVAL.
 */
static int length_at(struct musl *m, const struct group *g, unsigned slot, uint64_t p,
		     uint64_t *ret_bytes)
{
	uint64_t end = g->storage + g->stride * (slot + 1) - TAIL, distance, unused;
	uint8_t head[8], tail[5];
	uint16_t units;
	uint32_t wide;

	if (p >= end || mt_peek(&m->b->peek, p - sizeof(head), head, sizeof(head)))
		return -EINVAL;
	memcpy(&units, head + 6, sizeof(units));
	memcpy(&wide, head, sizeof(wide));
	distance = head[4] ? wide : units;
	if ((head[4] && units) || g->storage + distance * UNIT != p || (head[5] & 31) != slot)
		return -EINVAL;
	unused = head[5] >> 5;
	if (unused > MARK_LONG || mt_peek(&m->b->peek, end - 5, tail, sizeof(tail)))
		return -EINVAL;
	if (unused == MARK_LONG) {
		memcpy(&wide, tail + 1, sizeof(wide));
		unused = wide;
		if (unused < MARK_LONG || tail[0])
			return -EINVAL;
	}
	if (unused > end - p)
		return -EINVAL;
	*ret_bytes = end - unused - p;
	return 0;
}

/* The two bytes 0 that say that nobody wrote beyond the block. */
static bool is_end_whole(struct musl *m, const struct group *g, unsigned slot,
			 uint64_t end_of_block)
{
	uint64_t end = g->storage + g->stride * (slot + 1) - TAIL;
	uint8_t byte[2];

	return !mt_peek(&m->b->peek, end_of_block, &byte[0], 1) &&
	       !mt_peek(&m->b->peek, end, &byte[1], 1) && !byte[0] && !byte[1];
}

static void take_block(struct musl *m, const struct group *g, uint64_t p, uint64_t bytes)
{
	struct mt_heap_arena *a = &m->b->h->arenas[0];

	mt_heap_add_live(m->b, 0, p, bytes);
	if (g->is_single) {
		a->mapped_blocks++;
		a->mapped_bytes += bytes;
	}
}

/* The block of a slot in use. */
static void read_slot(struct musl *m, const struct group *g, unsigned slot)
{
	uint64_t start = g->storage + g->stride * slot, p = start, bytes;
	uint16_t moved;
	uint8_t mark;

	if (mt_peek(&m->b->peek, start - 3, &mark, 1) ||
	    mt_peek(&m->b->peek, start - 2, &moved, sizeof(moved))) {
		m->b->h->skipped_bytes += g->stride;
		return;
	}
	if (mark >> 5 == MARK_NESTED)
		return;
	if (mark >> 5 == MARK_MOVED)
		p += (uint64_t)moved * UNIT;
	/* only the low bits of a long way are kept */
	while (length_at(m, g, slot, p, &bytes)) {
		p += (uint64_t)UNIT << 16;
		if (mark >> 5 != MARK_MOVED || p - start >= g->stride) {
			mt_heap_add_damage(m->b, start,
					   "the header of slot %u of the group at 0x%" PRIx64
					   " is damaged: no block's length is known there",
					   slot, g->address);
			m->b->h->skipped_bytes += g->stride;
			return;
		}
	}
	if (!is_end_whole(m, g, slot, p + bytes))
		mt_heap_add_damage(m->b, p,
				   "bytes behind the end of this block of %" PRIu64
				   " bytes were overwritten",
				   bytes);
	take_block(m, g, p, bytes);
}

/* ---- groups ---- */

/* 0; 1: this descriptor is not in use; -EINVAL: damage. */
static int read_group(struct musl *m, uint64_t address, const struct meta *meta, struct group *g)
{
	unsigned class = meta->bits >> 6 & 63;
	uint64_t back;

	*g = (struct group){
		.meta = address,
		.address = meta->group,
		.storage = meta->group + UNIT,
		.slots = (meta->bits & 31) + 1,
		.free_mask = meta->avail_mask | meta->freed_mask,
		.pages = meta->bits >> 12,
	};
	if (!meta->group)
		return 1;
	if (meta->group & (UNIT - 1) || mt_peek_u64(&m->b->peek, meta->group, &back) ||
	    back != address || g->pages > 1ull << 35)
		return -EINVAL;
	g->is_single = g->slots == 1 && g->pages && class == CLASS_SINGLE;
	if (g->slots == 1 && g->pages)
		g->stride = g->pages * 4096 - UNIT;
	else if (class < CLASSES)
		g->stride = (uint64_t)class_units[class] * UNIT;
	else
		return -EINVAL;
	if (g->pages && UNIT + g->stride * g->slots > g->pages * 4096)
		return -EINVAL;
	if (meta->avail_mask & meta->freed_mask || (g->free_mask >> 1) >> (g->slots - 1))
		return -EINVAL;
	return mt_heap_is_writable(m->b, g->address, UNIT + g->stride * g->slots) ? 0 : -EINVAL;
}

static void walk_group(struct musl *m, const struct group *g)
{
	uint64_t bytes = g->pages ? g->pages * 4096 : UNIT + g->stride * g->slots;

	mt_heap_add_range(m->b, g->address, g->address + bytes, 0);
	for (unsigned i = 0; i < g->slots && !m->b->ranges_only; i++)
		if (g->free_mask >> i & 1)
			count_free(m, g->stride - TAIL, g->storage + g->stride * i);
		else
			read_slot(m, g, i);
}

/* Groups in slots of others are held with these: what counts is the union. */
static void count_held(struct musl *m)
{
	struct mt_heap *h = m->b->h;
	uint64_t end = 0;

	mt_heap_sort_ranges(m->b);
	for (size_t i = 0; i < h->range_count; i++) {
		uint64_t start = MT_MAX(h->ranges[i].start, end);

		if (h->ranges[i].end <= start)
			continue;
		end = h->ranges[i].end;
		h->arenas[0].held_bytes += end - start;
	}
}

static void walk_area(struct musl *m, uint64_t area, uint32_t slots)
{
	for (uint32_t i = 0; i < slots; i++) {
		uint64_t address = area + AREA_HEADER + (uint64_t)i * sizeof(struct meta);
		struct meta meta;
		struct group g;
		int code;

		if (mt_peek(&m->b->peek, address, &meta, sizeof(meta)))
			return;
		code = read_group(m, address, &meta, &g);
		if (!code)
			walk_group(m, &g);
		else if (code < 0)
			mt_heap_add_damage(
				m->b, address,
				"this descriptor of a group of blocks is damaged, or the "
				"group at 0x%" PRIx64 " is",
				meta.group);
	}
}

struct area {
	uint64_t check, next;
	uint32_t slots, pad;
};

static void walk_areas(struct musl *m)
{
	uint64_t at = m->first_area, last = 0;

	for (unsigned i = 0; at && i < AREAS_MAX; i++) {
		bool is_new;
		struct area area;

		if (!mt_map_at(m->areas, at, &is_new)) {
			m->b->failed = true;
			return;
		}
		if (!is_new || at & (AREA_BYTES - 1) ||
		    mt_peek(&m->b->peek, at, &area, sizeof(area)) || area.check != m->secret ||
		    area.slots > (AREA_BYTES - AREA_HEADER) / sizeof(struct meta)) {
			mt_heap_add_damage(
				m->b, last ? last : m->context,
				"the list of descriptors breaks off: 0x%" PRIx64 " holds none", at);
			return;
		}
		mt_heap_add_range(m->b, at, at + AREA_BYTES, 0);
		m->b->h->arenas[0].own_blocks++;
		m->b->h->arenas[0].own_bytes += AREA_BYTES;
		walk_area(m, at, area.slots);
		last = at;
		at = area.next;
	}
	if (last != m->last_area)
		mt_heap_add_damage(m->b, last, "this is not the last page of descriptors");
}

int mt_heap_read_musl(struct mt_heap_build *b, const struct mt_image_module *module,
		      struct mt_err *err)
{
	mt_auto(mt_map) struct mt_map areas = {0};
	struct musl m = {.b = b, .areas = &areas};
	int code = find_context(&m, module, err);

	if (code)
		return code;
	memcpy(b->h->version, "mallocng", sizeof("mallocng"));
	mt_heap_add_arena(b, m.context);
	if (b->failed)
		return mt_err_no_memory(err);
	walk_areas(&m);
	count_held(&m);
	return b->failed ? mt_err_no_memory(err) : 0;
}
