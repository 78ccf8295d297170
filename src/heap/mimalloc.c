/* SPDX-License-Identifier: MIT */
/*
 * Reads the heap of mimalloc 2.0.9 (x86-64) from outside. The main thread's heap is the place in
 * the library's writable memory where 75 queues have this version's block sizes and the thread's
 * data leads back; it has the cookie. A segment is at a multiple of 32 MiB where cookie and address
 * agree, and its descriptors of pages cover it. Blocks of a page are live but for those on its
 * three lists, and on the list of blocks that other threads freed in their heap. docs/heaps.md
 * tells more.
 */

#include "heap/build.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/search.h"
#include "target/pagemap.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	VERSION = 209,
	SEGMENT_SHIFT = 25,
	SLICE_SHIFT = 16,
	SLICE_BYTES = 1 << SLICE_SHIFT,
	SLICES = 512, /* of an ordinary segment; descriptors of any */
	QUEUES = 75,
	DIRECT = 129,
	OFFSET_BYTES = 384, /* what the pages of small blocks leave free at their start */
	OFFSET_BLOCK_MAX = 1024,
	FLAG_BITS = 3, /* in the list of blocks that other threads freed */
	PAGE_BLOCKS_MAX = 65536,
	DELAYED_MAX = 1 << 26,
	KIND_HUGE = 1,
	CODE_BYTES = 16,
};
static const uint64_t huge_block = 1ull << 31; /* as a page's block size: its whole length */

/* The descriptor of a page, of free slices, or of a slice within either. */
struct page {
	uint32_t slices, back_bytes;
	uint8_t memory_flags, pad;
	uint16_t capacity, reserved;
	uint8_t flags, more_flags;
	uint64_t free;
	uint32_t used, block_bytes; /* block_bytes 0: free slices */
	uint64_t local_free, thread_free, heap, next, before, unused;
};
_Static_assert(sizeof(struct page) == 80, "as mi_page_t");

/* The head of a segment, in front of its descriptors. */
struct head {
	uint64_t memory, flags, alignment, align_offset, allows_decommit, expires;
	uint64_t decommit[8], committed[8]; /* a bit for each slice */
	uint64_t next_abandoned, next, abandoned, visits, used, cookie, slices, info_slices;
	uint32_t kind, pad;
	uint64_t entries, thread;
};
_Static_assert(sizeof(struct head) == 264, "as mi_segment_t");

struct queue {
	uint64_t first, last, block_bytes;
};

/* A thread's heap, what of it is needed. */
struct local_heap {
	uint64_t thread_data, direct[DIRECT];
	struct queue queue[QUEUES];
	uint64_t delayed, thread;
	uint32_t arena, pad;
	uint64_t cookie;
};
_Static_assert(sizeof(struct local_heap) == 2872, "as mi_heap_t");

struct segment {
	uint64_t at;
	struct head head;
	uint32_t arena;
	bool is_whole; /* its descriptors cover it */
};

struct mimalloc {
	struct mt_heap_build *b;
	const struct mt_image_module *module;
	struct mt_pagemap present;
	uint64_t main_heap, cookie;
	struct segment *segments;
	size_t segment_count, segment_cap;
	struct mt_map heaps;   /* by address, seen */
	struct mt_map owners;  /* thread -> index in h->arenas + 1 */
	struct mt_map delayed; /* block -> 0, 1: seen in a page */
	uint8_t is_free[PAGE_BLOCKS_MAX];
};

/* ---- the version and the main heap ---- */

/* What the function that tells the version returns, by its code; -1: another code. */
static int64_t version_of(struct mt_image *im, const struct mt_image_module *m)
{
	static const uint8_t mark[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
	uint8_t code[CODE_BYTES];
	uint64_t address;
	uint32_t number;
	size_t at;

	if (mt_image_symbol(im, m, "mi_version", &address, NULL) ||
	    mt_image_read_all(im, address, code, sizeof(code)))
		return -1;
	at = memcmp(code, mark, sizeof(mark)) ? 0 : sizeof(mark);
	memcpy(&number, code + at + 1, sizeof(number));
	return code[at] == 0xb8 && code[at + 5] == 0xc3 ? number : -1; /* mov eax, number; ret */
}

static int check_version(struct mimalloc *m, struct mt_err *err)
{
	int64_t version = m->b->arch == MT_IMAGE_X86_64 ? version_of(m->b->im, m->module) : -1;

	if (version == VERSION)
		return 0;
	if (version >= 100 && version < 1000)
		return mt_err_set(err, -ENOTSUP,
				  "'%s' is mimalloc %u.%u.%u, the layout of whose heap is not "
				  "known; known is 2.0.9",
				  m->module->path, (unsigned)version / 100,
				  (unsigned)version / 10 % 10, (unsigned)version % 10);
	return mt_err_set(err, -ENOTSUP,
			  "'%s' is mimalloc, but not 2.0.9 for x86-64: the layout of its heap is "
			  "not known",
			  m->module->path);
}

/* The size of the blocks of a queue; the last two are those of larger blocks and of full pages. */
static uint64_t queue_bytes(unsigned i)
{
	if (i >= QUEUES - 2)
		return 131072 + 8 * (i - (QUEUES - 2) + 1);
	if (i < 9)
		return i ? 8 * i : 8;
	return 8 * ((8 + 2 * ((uint64_t)(i - 9) % 4 + 1)) << (i - 9) / 4);
}

static bool has_queues(const struct queue *queue)
{
	for (unsigned i = 0; i < QUEUES; i++)
		if (queue[i].block_bytes != queue_bytes(i))
			return false;
	return true;
}

/* The heap at an address: it has the queues, and its thread's data has a first heap. */
static bool read_heap(struct mimalloc *m, uint64_t at, struct local_heap *h, uint64_t *ret_first)
{
	return !(at & 7) && !mt_peek(&m->b->peek, at, h, sizeof(*h)) && has_queues(h->queue) &&
	       h->thread_data && !mt_peek_u64(&m->b->peek, h->thread_data + 16, ret_first);
}

static int find_in_segment(struct mimalloc *m, const struct mt_image_segment *s)
{
	size_t bytes;
	mt_auto(free) uint8_t *data = mt_heap_segment_bytes(m->b->im, s, &bytes);

	if (!data)
		return -ENOMEM;
	for (size_t at = 0; at + sizeof(struct local_heap) <= bytes; at += 8) {
		struct local_heap h;
		uint64_t first;

		memcpy(&h, data + at, sizeof(h.thread_data));
		if (!h.thread_data)
			continue;
		memcpy(h.queue, data + at + offsetof(struct local_heap, queue), sizeof(h.queue[0]));
		if (h.queue[0].block_bytes != queue_bytes(0) ||
		    !read_heap(m, s->start + at, &h, &first) || first != s->start + at)
			continue;
		m->main_heap = s->start + at;
		m->cookie = h.cookie;
		return 0;
	}
	return -ENOENT;
}

static int find_main_heap(struct mimalloc *m, struct mt_err *err)
{
	int code = -ENOENT;

	for (uint32_t i = 0; i < m->module->segment_count && code == -ENOENT; i++)
		if (m->module->segments[i].flags & MT_MAPPING_WRITE)
			code = find_in_segment(m, &m->module->segments[i]);
	if (code == -ENOMEM)
		return mt_err_no_memory(err);
	if (code)
		return mt_err_set(err, -ENOTSUP,
				  "nothing in '%s' is built as the main heap of mimalloc 2.0.9 is",
				  m->module->path);
	return 0;
}

/* ---- segments ---- */

static uint64_t bytes_of(const struct head *h)
{
	return h->slices << SLICE_SHIFT;
}

/* 0, or -ENOENT: no segment begins there. */
static int read_head(struct mimalloc *m, uint64_t at, struct head *h)
{
	if (mt_peek(&m->b->peek, at, h, sizeof(*h)) || h->cookie != (at ^ m->cookie))
		return -ENOENT;
	return 0;
}

static bool is_head_sound(const struct head *h)
{
	return h->kind <= KIND_HUGE && h->info_slices == 1 && h->slices > 1 &&
	       h->slices < 1ull << 31 && h->entries == MT_MIN(h->slices, (uint64_t)SLICES) &&
	       (h->kind == KIND_HUGE || h->slices == SLICES);
}

static int read_page(struct mimalloc *m, uint64_t segment, uint64_t index, struct page *p)
{
	uint64_t at = segment + sizeof(struct head) + index * sizeof(*p);

	return mt_peek(&m->b->peek, at, p, sizeof(*p));
}

/* Whether the descriptors lead to the end of the segment, and those in use are as many as it
 * counts. */
static bool is_covered(struct mimalloc *m, const struct segment *s)
{
	uint64_t index = 0, used = 0;

	while (index < s->head.entries) {
		struct page p;

		if (read_page(m, s->at, index, &p) || !p.slices || p.back_bytes)
			return false;
		used += index && p.block_bytes;
		index += p.slices;
	}
	return used == s->head.used && index == s->head.slices;
}

static void add_segment(struct mimalloc *m, uint64_t at, const struct head *head)
{
	struct segment *grown =
		mt_alloc_grow(m->segments, &m->segment_cap, m->segment_count + 1, sizeof(*grown));
	struct segment *s;

	if (!grown) {
		m->b->failed = true;
		return;
	}
	m->segments = grown;
	s = &m->segments[m->segment_count++];
	*s = (struct segment){.at = at, .head = *head};
	s->is_whole = is_head_sound(head) && is_covered(m, s);
}

static void find_segments(struct mimalloc *m)
{
	const uint64_t step = 1ull << SEGMENT_SHIFT;
	uint64_t next = step;
	size_t count;
	const struct mt_mapping *map = mt_image_mappings(m->b->im, &count);

	for (size_t i = 0; i < count && !m->b->failed; i++) {
		uint64_t at = MT_MAX(MT_ALIGN_UP(map[i].start, step), next);

		if (!(map[i].flags & MT_MAPPING_WRITE))
			continue;
		for (; at >= step && at < map[i].end; at += step) {
			struct head head;

			if (read_head(m, at, &head))
				continue;
			add_segment(m, at, &head);
			/* what lies in a large block is no segment */
			if (is_head_sound(&head) && at + bytes_of(&head) > at)
				next = MT_ALIGN_UP(at + bytes_of(&head), step);
			at = MT_MAX(at, next - step);
		}
	}
}

/* ---- heaps of threads ---- */

/* " (its thread was at work in the allocator)", for damage that may be none. */
static const char *at_work(const struct mimalloc *m, const struct segment *s)
{
	size_t count;
	const struct mt_image_thread *t = mt_image_threads(m->b->im, &count);

	for (size_t i = 0; i < count; i++)
		if (t[i].thread_pointer && t[i].thread_pointer == s->head.thread &&
		    mt_image_module_of(m->b->im, t[i].pc) == m->module)
			return " (its thread was at work in the allocator)";
	return "";
}

/* Blocks that other threads freed while their page was full. */
static void read_delayed(struct mimalloc *m, uint64_t heap, uint64_t block)
{
	for (unsigned n = 0; block && n < DELAYED_MAX; n++) {
		bool is_new;
		uint64_t next;

		if (!mt_map_at(&m->delayed, block, &is_new)) {
			m->b->failed = true;
			return;
		}
		if (!is_new || mt_peek_u64(&m->b->peek, block, &next)) {
			mt_heap_add_damage(m->b, heap,
					   "the list of blocks that other threads freed breaks "
					   "off at 0x%" PRIx64,
					   block);
			return;
		}
		block = next;
	}
}

/* The arena of a thread, whose first heap may be known; NULL: no memory. */
static struct mt_heap_arena *arena_of(struct mimalloc *m, uint64_t thread, uint64_t address)
{
	struct mt_heap_arena *arena;
	bool is_new;
	uint64_t *number = mt_map_at(&m->owners, thread, &is_new);

	if (!number) {
		m->b->failed = true;
		return NULL;
	}
	if (is_new)
		*number = mt_heap_add_arena(m->b, address) + 1;
	if (m->b->failed)
		return NULL;
	arena = &m->b->h->arenas[*number - 1];
	if (address)
		arena->address = address;
	arena->is_left_over = !thread;
	return arena;
}

/* The pages in a heap's queues lie in segments. */
static void check_queues(struct mimalloc *m, uint64_t heap, const struct local_heap *h)
{
	for (unsigned i = 0; i < QUEUES; i++) {
		uint64_t page = h->queue[i].first, at = page >> SEGMENT_SHIFT << SEGMENT_SHIFT;
		size_t k = MT_SEARCH_BELOW(m->segments, m->segment_count, at, at);

		if (!page || (k < m->segment_count && m->segments[k].at == at))
			continue;
		mt_heap_add_damage(m->b, heap + offsetof(struct local_heap, queue[i]),
				   "this queue of a heap has a page at 0x%" PRIx64
				   ", where no segment is: its blocks are missing",
				   page);
	}
}

/* The heap that a page names; s: NULL: the main one. */
static void visit_heap(struct mimalloc *m, const struct segment *s, uint64_t heap)
{
	struct local_heap h;
	uint64_t first;
	bool is_new;

	if (!mt_map_at(&m->heaps, heap, &is_new)) {
		m->b->failed = true;
		return;
	}
	if (!is_new)
		return;
	if (!read_heap(m, heap, &h, &first) || (s && h.thread != s->head.thread)) {
		mt_heap_add_damage(m->b, s ? s->at : heap,
				   "a page of this segment names 0x%" PRIx64
				   " as the heap of its thread, which is none%s",
				   heap, s ? at_work(m, s) : "");
		return;
	}
	arena_of(m, h.thread, first);
	check_queues(m, heap, &h);
	read_delayed(m, heap, h.delayed);
}

static void visit_heaps(struct mimalloc *m, struct segment *s)
{
	const struct mt_heap_arena *a = arena_of(m, s->head.thread, 0);

	if (!a)
		return;
	s->arena = (uint32_t)(a - m->b->h->arenas);
	for (uint64_t index = 0; s->is_whole && index < s->head.entries && !m->b->failed;) {
		struct page p;

		if (read_page(m, s->at, index, &p) || !p.slices)
			return;
		if (index && p.block_bytes && p.heap)
			visit_heap(m, s, p.heap);
		index += p.slices;
	}
}

/* ---- pages and blocks ---- */

/* A page in use: where its blocks lie. */
struct blocks {
	uint64_t start, end; /* end: of the page */
	uint64_t block_bytes;
	unsigned capacity, free_count;
	const char *note;
};

/* Bytes of pages that were ever written, of those that begin in [from, to). */
static uint64_t written_bytes(struct mimalloc *m, uint64_t from, uint64_t to)
{
	const uint64_t page = m->b->page_bytes;
	uint64_t bytes = 0;

	for (uint64_t at = MT_ALIGN_UP(from, page); at < to; at += page) {
		at = mt_pagemap_next(&m->present, at, to);
		if (at < to)
			bytes += page;
	}
	return bytes;
}

static void walk_free_slices(struct mimalloc *m, const struct segment *s, uint64_t index,
			     uint64_t count)
{
	struct mt_heap_arena *a = &m->b->h->arenas[s->arena];
	uint64_t bytes = 0;

	for (uint64_t i = index; i < index + count && i < SLICES; i++)
		if (s->head.committed[i / 64] >> i % 64 & 1)
			bytes += written_bytes(m, s->at + i * SLICE_BYTES,
					       s->at + (i + 1) * SLICE_BYTES);
	a->held_bytes += bytes;
	a->top_bytes += bytes;
}

/* Takes the blocks of a list as free: how many, or -EINVAL. */
static int64_t take_list(struct mimalloc *m, const struct blocks *k, uint64_t at)
{
	int64_t count = 0;

	for (; at; count++) {
		uint64_t index = (at - k->start) / k->block_bytes;

		if (at < k->start || index >= k->capacity || m->is_free[index] ||
		    at != k->start + index * k->block_bytes || mt_peek_u64(&m->b->peek, at, &at))
			return -EINVAL;
		m->is_free[index] = 1;
	}
	return count;
}

/* Blocks of the page that wait in the list of its heap: how many. */
static unsigned take_delayed(struct mimalloc *m, const struct blocks *k)
{
	unsigned count = 0;

	for (unsigned i = 0; m->delayed.count && i < k->capacity; i++) {
		uint64_t address = k->start + i * k->block_bytes, seen;

		if (m->is_free[i] || !mt_map_get(&m->delayed, address, &seen))
			continue;
		mt_map_set(&m->delayed, address, 1); /* it is there: nothing is allocated */
		m->is_free[i] = 1;
		count++;
	}
	return count;
}

/* 0, or -EINVAL: which blocks are live cannot be told. */
static int read_lists(struct mimalloc *m, const struct segment *s, struct blocks *k,
		      const struct page *p)
{
	int64_t here, local, others;

	memset(m->is_free, 0, k->capacity);
	here = take_list(m, k, p->free);
	local = here < 0 ? here : take_list(m, k, p->local_free);
	others = local < 0 ? local : take_list(m, k, p->thread_free & ~(uint64_t)FLAG_BITS);
	if (others < 0) {
		mt_heap_add_damage(m->b, k->start,
				   "a list of free blocks of this page of blocks of %" PRIu64
				   " bytes leads to what is none%s",
				   k->block_bytes, at_work(m, s));
		return -EINVAL;
	}
	if (p->used + (uint64_t)(here + local) != k->capacity)
		mt_heap_add_damage(m->b, k->start,
				   "this page counts %u of %u blocks as in use, but has %u on "
				   "its lists%s",
				   p->used, k->capacity, (unsigned)(here + local), at_work(m, s));
	k->free_count = (unsigned)(here + local + others) + take_delayed(m, k);
	return 0;
}

static void emit_blocks(struct mimalloc *m, const struct segment *s, const struct blocks *k)
{
	struct mt_heap_arena *a = &m->b->h->arenas[s->arena];
	const uint64_t page = m->b->page_bytes;
	uint64_t run = k->start; /* of free blocks */

	a->free_blocks += k->free_count;
	a->free_bytes += k->free_count * k->block_bytes;
	for (unsigned i = 0; i <= k->capacity; i++) {
		uint64_t address = k->start + i * k->block_bytes, from, to;

		if (i < k->capacity && m->is_free[i])
			continue;
		from = MT_ALIGN_UP(run, page);
		to = MT_ALIGN_DOWN(address, page);
		a->free_page_bytes += to > from ? to - from : 0;
		run = address + k->block_bytes;
		if (i == k->capacity)
			break;
		mt_heap_add_live(m->b, s->arena, address, k->block_bytes);
		if (s->head.kind == KIND_HUGE) {
			a->mapped_blocks++;
			a->mapped_bytes += k->block_bytes;
		}
	}
}

static void walk_page(struct mimalloc *m, const struct segment *s, uint64_t index,
		      const struct page *p)
{
	struct mt_heap_arena *a = &m->b->h->arenas[s->arena];
	uint64_t start = s->at + (index << SLICE_SHIFT), bytes = (uint64_t)p->slices << SLICE_SHIFT;
	struct blocks k = {.start = start, .end = start + bytes, .block_bytes = p->block_bytes};

	if (k.block_bytes >= huge_block)
		k.block_bytes = bytes;
	if (k.block_bytes >= 8 && k.block_bytes <= OFFSET_BLOCK_MAX)
		k.start += OFFSET_BYTES;
	k.capacity = p->capacity;
	if (k.block_bytes & 7 || k.capacity > p->reserved || p->used > k.capacity ||
	    p->reserved > (k.end - k.start) / k.block_bytes) {
		mt_heap_add_damage(m->b, start, "the descriptor of this page is damaged%s",
				   at_work(m, s));
		m->b->h->skipped_bytes += bytes;
		return;
	}
	uint64_t blocks_end = k.start + k.capacity * k.block_bytes,
		 rest = written_bytes(m, blocks_end, k.end);

	a->held_bytes += blocks_end - start + rest;
	a->top_bytes += rest;
	if (read_lists(m, s, &k, p))
		m->b->h->skipped_bytes += k.capacity * k.block_bytes;
	else
		emit_blocks(m, s, &k);
}

static void walk_segment(struct mimalloc *m, const struct segment *s)
{
	struct mt_heap_arena *a = &m->b->h->arenas[s->arena];
	const uint64_t own = MT_ALIGN_UP(sizeof(struct head) + (SLICES + 1) * sizeof(struct page),
					 m->b->page_bytes);
	uint64_t end = s->at + bytes_of(&s->head);

	if (!s->is_whole) {
		mt_heap_add_damage(m->b, s->at, "the descriptors of this segment do not cover it%s",
				   at_work(m, s));
		end = mt_heap_run_end(m->b, s->at);
		end = MT_MIN(end, s->at + (1ull << SEGMENT_SHIFT));
		m->b->h->skipped_bytes += end - s->at;
		mt_heap_add_range(m->b, s->at, end, s->arena);
		return;
	}
	mt_heap_add_range(m->b, s->at, end, s->arena);
	a->own_blocks++;
	a->own_bytes += own;
	a->held_bytes += own;
	for (uint64_t index = 1; index < s->head.entries && !m->b->failed;) {
		struct page p;

		if (read_page(m, s->at, index, &p) || !p.slices)
			return;
		if (p.block_bytes)
			walk_page(m, s, index, &p);
		else if (s->head.kind != KIND_HUGE)
			walk_free_slices(m, s, index, p.slices);
		index += p.slices;
	}
}

/* Blocks of the lists of heaps that no page has. */
static void tell_unseen(struct mimalloc *m)
{
	uint64_t block, seen, count = 0, least = UINT64_MAX;

	for (size_t pos = 0; mt_map_next(&m->delayed, &pos, &block, &seen);)
		if (!seen) {
			count++;
			least = MT_MIN(least, block);
		}
	if (count)
		mt_heap_add_damage(m->b, least,
				   "the lists of blocks that other threads freed have %" PRIu64
				   " that are none, this is the first",
				   count);
}

static void add_ranges(struct mimalloc *m)
{
	for (size_t i = 0; i < m->segment_count; i++) {
		const struct segment *s = &m->segments[i];

		if (s->is_whole)
			mt_heap_add_range(m->b, s->at, s->at + bytes_of(&s->head), 0);
	}
}

static int read_all(struct mimalloc *m, struct mt_err *err)
{
	size_t whole = 0;
	int code = check_version(m, err);

	if (!code)
		code = find_main_heap(m, err);
	if (code)
		return code;
	find_segments(m);
	for (size_t i = 0; i < m->segment_count; i++)
		whole += m->segments[i].is_whole;
	if (m->b->failed)
		return mt_err_no_memory(err);
	if (m->segment_count && !whole)
		return mt_err_set(err, -ENOTSUP,
				  "no segment of '%s' is built as those of mimalloc 2.0.9 are",
				  m->module->path);
	memcpy(m->b->h->version, "2.0.9", sizeof("2.0.9"));
	if (m->b->ranges_only) {
		add_ranges(m);
		return m->b->failed ? mt_err_no_memory(err) : 0;
	}
	visit_heap(m, NULL, m->main_heap);
	for (size_t i = 0; i < m->segment_count && !m->b->failed; i++)
		visit_heaps(m, &m->segments[i]);
	for (size_t i = 0; i < m->segment_count && !m->b->failed; i++)
		walk_segment(m, &m->segments[i]);
	tell_unseen(m);
	return m->b->failed ? mt_err_no_memory(err) : 0;
}

int mt_heap_read_mimalloc(struct mt_heap_build *b, const struct mt_image_module *module,
			  struct mt_err *err)
{
	struct mimalloc *m = mt_alloc_zero(1, sizeof(*m));
	int code;

	if (!m)
		return mt_err_no_memory(err);
	m->b = b;
	m->module = module;
	mt_pagemap_open_image(&m->present, b->im);
	code = read_all(m, err);
	mt_pagemap_close(&m->present);
	mt_map_done(&m->heaps);
	mt_map_done(&m->owners);
	mt_map_done(&m->delayed);
	free(m->segments);
	free(m);
	return code;
}
