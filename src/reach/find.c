/* SPDX-License-Identifier: MIT */
/*
 * Order: the heap is walked, the list of blocks is made from the table or from the heap, what is in
 * use in the heap beside it becomes a root, then roots, marking, folding.
 */

#include "reach/find.h"

#include "base/alloc.h"
#include "base/map.h"
#include "base/search.h"
#include "core/cc.h"
#include "core/sys.h"
#include "reach/absent.h"
#include "target/image_core.h"

#include <errno.h>
#include <string.h>

enum {
	GLIBC_ARENA_BYTES = 2200, /* struct malloc_state */
	DESCRIPTOR_WORDS = 2048,  /* at the end of a stack, thread-local memory included */
	/* first word of a block that check mode holds back after its free */
	CHECK_FREED_TAG = 0x1cc7dccd,
};

struct maker {
	struct mt_image *im;
	const struct mt_find_input *in;
	struct mt_find *f;
	struct mt_ranges heap, own, in_use, absent, missing;
	uint32_t *held; /* owned */
	size_t held_count, held_capacity, capacity;
};

static void maker_done(struct maker *m)
{
	mt_ranges_done(&m->heap);
	mt_ranges_done(&m->own);
	mt_ranges_done(&m->in_use);
	mt_ranges_done(&m->absent);
	mt_ranges_done(&m->missing);
	free(m->held);
}
MT_AUTO_DEFINE_INPLACE(maker, struct maker, maker_done)

void mt_find_done(struct mt_find *f)
{
	if (!f)
		return;
	free(f->block);
	free(f->bytes);
	free(f->stack);
	if (f->has_heap)
		mt_heap_done(&f->heap);
	mt_roots_done(&f->roots);
	mt_mark_done(&f->mark);
	mt_fold_done(&f->fold);
	*f = (struct mt_find){0};
}

/* ---- blocks ---- */

static int reserve_blocks(struct mt_find *f, size_t count)
{
	f->block = mt_alloc_zero(count, sizeof(*f->block));
	f->bytes = mt_alloc_zero(count, sizeof(*f->bytes));
	f->stack = mt_alloc_zero(count, sizeof(*f->stack));
	return f->block && f->bytes && f->stack ? 0 : -ENOMEM;
}

/* False: it overlaps the one before. */
static bool add_block(struct mt_find *f, uint64_t address, uint64_t bytes, uint64_t stack)
{
	uint64_t end = address + MT_MAX(bytes, 1u);

	if (end <= address || (f->blocks && f->block[f->blocks - 1].end > address))
		return false;
	f->block[f->blocks] = (struct mt_range){address, end};
	f->bytes[f->blocks] = bytes;
	if (stack)
		f->stack[f->blocks] = stack; /* pages of zeros take no memory */
	f->blocks++;
	f->block_bytes += bytes;
	return true;
}

static int hold(struct maker *m, size_t block)
{
	uint32_t *grown =
		mt_alloc_grow(m->held, &m->held_capacity, m->held_count + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	m->held = grown;
	m->held[m->held_count++] = (uint32_t)block;
	return 0;
}

/* The heap has been walked as a whole, so that what it does not say of a block is not so. */
static bool is_heap_whole(const struct mt_find *f)
{
	return f->has_heap && !f->heap.damages_in_all && !f->heap.skipped_bytes;
}

static bool is_in_heap(const struct maker *m, uint64_t address)
{
	return mt_range_find(m->heap.item, m->heap.count, address) != MT_RANGE_NONE;
}

/* Whether a block of the heap has room for it: one that was freed unseen may be another one now. */
static bool has_block(const struct mt_heap *h, const struct mt_known *k)
{
	const struct mt_heap_block *b = mt_heap_block_of(h, k->address);

	return b && k->bytes <= MT_MAX(b->bytes, 1u) - (k->address - b->address);
}

static int add_known(struct maker *m, const struct mt_known *k)
{
	struct mt_find *f = m->f;

	if (is_heap_whole(f) && is_in_heap(m, k->address) && !has_block(&f->heap, k)) {
		f->stale_count++;
		return 0;
	}
	if (!k->is_sure)
		return mt_ranges_add(&m->in_use, k->address, k->address + k->bytes);
	if (!add_block(f, k->address, k->bytes, k->stack))
		f->stale_count++;
	else if (k->is_loaders)
		return hold(m, f->blocks - 1);
	return 0;
}

static bool is_held_back(struct maker *m, const struct mt_heap_block *b)
{
	uint32_t tag = 0;

	return !mt_image_read_all(m->im, b->address, &tag, sizeof(tag)) && tag == CHECK_FREED_TAG;
}

/* Blocks of the heap that no known block lies in. */
static int add_unknown(struct maker *m)
{
	struct mt_find *f = m->f;
	size_t k = 0;

	for (size_t i = 0; i < f->heap.block_count; i++) {
		const struct mt_heap_block *b = &f->heap.blocks[i];

		while (k < f->blocks && f->block[k].end <= b->address)
			k++;
		if ((k < f->blocks && f->block[k].start < b->address + MT_MAX(b->bytes, 1u)) ||
		    is_held_back(m, b))
			continue;
		f->unknown_count++;
		if (mt_ranges_add(&m->in_use, b->address, b->address + b->bytes))
			return -ENOMEM;
	}
	return 0;
}

static int take_table(struct maker *m)
{
	if (reserve_blocks(m->f, m->in->knowns))
		return -ENOMEM;
	for (size_t i = 0; i < m->in->knowns; i++)
		if (add_known(m, &m->in->known[i]))
			return -ENOMEM;
	if (add_unknown(m))
		return -ENOMEM;
	mt_ranges_tidy(&m->in_use);
	return 0;
}

/* All of the heap; what is known of some of them is their stack. */
static int take_heap(struct maker *m)
{
	const struct mt_heap *h = &m->f->heap;
	size_t k = 0;

	if (reserve_blocks(m->f, h->block_count))
		return -ENOMEM;
	for (size_t i = 0; i < h->block_count; i++) {
		const struct mt_heap_block *b = &h->blocks[i];
		uint64_t stack = 0;
		bool is_loaders = false;

		while (k < m->in->knowns && m->in->known[k].address < b->address)
			k++;
		if (k < m->in->knowns &&
		    m->in->known[k].address - b->address < MT_MAX(b->bytes, 1u)) {
			stack = m->in->known[k].is_sure ? m->in->known[k].stack : 0;
			is_loaders = m->in->known[k].is_loaders;
		}
		if (!add_block(m->f, b->address, b->bytes, stack))
			continue;
		if (is_loaders && hold(m, m->f->blocks - 1))
			return -ENOMEM;
	}
	free(m->f->heap.blocks); /* they are all taken: there may be very many */
	m->f->heap.blocks = NULL;
	m->f->heap.block_count = 0;
	return 0;
}

/* A stack may lie in a block, with a thread on it. */
static int hold_stacks(struct maker *m)
{
	size_t count;
	const struct mt_image_thread *t = mt_image_threads(m->im, &count);

	for (size_t i = 0; i < count; i++) {
		int64_t at = t[i].is_missing ? MT_RANGE_NONE
					     : mt_range_find(m->f->block, m->f->blocks, t[i].sp);

		if (at != MT_RANGE_NONE && hold(m, (size_t)at))
			return -ENOMEM;
	}
	return 0;
}

/* ---- threads ---- */

/*
 * The block with a thread's table of dynamic thread-local memory: its descriptor, at the thread
 * pointer, points into it and not to its start.
 */
static int hold_table(struct maker *m, uint64_t descriptor)
{
	uint64_t at = descriptor + (mt_image_facts(m->im)->arch == MT_IMAGE_X86_64 ? 8 : 0), table;
	int64_t block;

	if (!descriptor || mt_image_read_all(m->im, at, &table, sizeof(table)))
		return 0;
	block = mt_range_find(m->f->block, m->f->blocks, table);
	return block != MT_RANGE_NONE ? hold(m, (size_t)block) : 0;
}

static bool has_thread(const struct maker *m, const struct mt_mapping *map)
{
	size_t count;
	const struct mt_image_thread *t = mt_image_threads(m->im, &count);

	for (size_t i = 0; i < count; i++)
		if (t[i].is_missing || (t[i].sp >= map->start && t[i].sp < map->end) ||
		    (t[i].thread_pointer >= map->start && t[i].thread_pointer < map->end))
			return true;
	return false;
}

/* A descriptor of glibc's at the end of a stack: words that point to itself. 0: there is none. */
static uint64_t find_descriptor(struct maker *m, const struct mt_mapping *map)
{
	uint64_t word[DESCRIPTOR_WORDS];
	uint64_t start = map->end - sizeof(word);

	if (map->end - map->start < sizeof(word) ||
	    mt_image_read_all(m->im, start, word, sizeof(word)))
		return 0;
	for (size_t i = 0; i + 2 < DESCRIPTOR_WORDS; i++)
		if (word[i] == start + i * 8 && word[i + 2] == word[i])
			return word[i];
	return 0;
}

/* glibc keeps stacks of threads that have ended, with all that these left there. */
static int leave_out_ended(struct maker *m)
{
	const uint32_t any = MT_MAPPING_READ | MT_MAPPING_WRITE | MT_MAPPING_EXEC;
	size_t count;
	const struct mt_mapping *map = mt_image_mappings(m->im, &count);

	if (mt_image_facts(m->im)->arch != MT_IMAGE_X86_64)
		return 0;
	for (size_t i = 1; i < count; i++) {
		bool has_guard = map[i - 1].end == map[i].start && !(map[i - 1].flags & any);
		uint64_t at;

		if (!has_guard || map[i].inode || map[i].flags & MT_MAPPING_SHARED ||
		    !(map[i].flags & MT_MAPPING_WRITE) || has_thread(m, &map[i]))
			continue;
		at = find_descriptor(m, &map[i]);
		if (at && (hold_table(m, at) || mt_ranges_add(&m->own, map[i].start, at)))
			return -ENOMEM;
	}
	return 0;
}

static int look_at_threads(struct maker *m)
{
	size_t count;
	const struct mt_image_thread *t = mt_image_threads(m->im, &count);

	for (size_t i = 0; i < count; i++)
		if (hold_table(m, t[i].thread_pointer))
			return -ENOMEM;
	return hold_stacks(m) ? -ENOMEM : leave_out_ended(m);
}

/* ---- the heap ---- */

static int walk_heap(struct maker *m, struct mt_err *err)
{
	struct mt_find *f = m->f;
	uint64_t start = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	int code = mt_heap_read(m->im, &f->heap, &f->why_no_heap);

	f->heap_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - start;
	f->has_heap = !code;
	if (code == -ENOMEM)
		return mt_err_no_memory(err);
	if (code && !m->in->is_table)
		return mt_err_set(err, code, "%s", f->why_no_heap.text);
	for (size_t i = 0; f->has_heap && i < f->heap.range_count; i++)
		if (mt_ranges_add(&m->heap, f->heap.ranges[i].start, f->heap.ranges[i].end))
			return mt_err_no_memory(err);
	for (size_t i = 0; f->has_heap && i < f->heap.arena_count; i++)
		if (f->heap.arenas[i].address && !strcmp(f->heap.allocator, "glibc") &&
		    mt_ranges_add(&m->own, f->heap.arenas[i].address,
				  f->heap.arenas[i].address + GLIBC_ARENA_BYTES))
			return mt_err_no_memory(err);
	mt_ranges_tidy(&m->heap);
	return 0;
}

/* ---- memory ---- */

/* For marking, by several threads: what is absent is zero, and costs no read. */
static size_t read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	struct maker *m = context;
	uint8_t *out = to;
	size_t done = 0;

	while (done < bytes) {
		uint64_t at = address + done, part = bytes - done;
		size_t i = MT_SEARCH_UP_TO(m->absent.item, m->absent.count, end, at);
		const struct mt_range *hole = i < m->absent.count ? &m->absent.item[i] : NULL;
		size_t got = (size_t)part;

		if (hole && hole->start <= at) {
			got = (size_t)MT_MIN(part, hole->end - at);
			memset(out + done, 0, got);
		} else {
			part = hole ? MT_MIN(part, hole->start - at) : part;
			got = mt_image_read_at_once(m->im, at, out + done, (size_t)part);
			if (got < part)
				return done + got;
		}
		done += got;
	}
	return done;
}

/* A core file may tell of any number of addresses that it does not hold. */
static int find_missing(struct maker *m)
{
	size_t count;
	const struct mt_mapping *map = mt_image_mappings(m->im, &count);

	for (size_t i = 0; i < count; i++)
		if (mt_ranges_add(&m->missing, map[i].start + mt_core_known_bytes(m->im, i),
				  map[i].end))
			return -ENOMEM;
	mt_ranges_tidy(&m->missing);
	return 0;
}

static int find_roots(struct maker *m)
{
	const struct mt_image_facts *facts = mt_image_facts(m->im);
	struct mt_find *f = m->f;
	struct mt_roots_input in = {
		.arch = facts->arch,
		.pid = facts->pid,
		.block = f->block,
		.blocks = f->blocks,
		.heap = m->heap.item,
		.heaps = m->heap.count,
		.in_use = m->in_use.item,
		.in_uses = m->in_use.count,
		.is_strict = m->in->is_strict,
	};

	for (size_t i = 0; i < m->in->owns; i++)
		if (mt_ranges_add(&m->own, m->in->own[i].start, m->in->own[i].end))
			return -ENOMEM;
	mt_ranges_tidy(&m->own);
	in.own = m->own.item;
	in.owns = m->own.count;
	if (find_missing(m))
		return -ENOMEM;
	in.missing = m->missing.item;
	in.missings = m->missing.count;
	in.mapping = mt_image_mappings(m->im, &in.mappings);
	in.thread = mt_image_threads(m->im, &in.threads);
	in.module = mt_image_modules(m->im, &in.modules);
	if (mt_roots_find(&in, &f->roots))
		return -ENOMEM;
	if (facts->source != MT_IMAGE_CORE &&
	    mt_absent_find(m->im, &m->own, &m->absent, &f->left_out_bytes))
		return -ENOMEM;
	f->absent_bytes = mt_ranges_bytes(&f->roots.range);
	if (mt_ranges_subtract(&f->roots.range, m->absent.item, m->absent.count) ||
	    mt_ranges_subtract(&f->roots.code, m->absent.item, m->absent.count))
		return -ENOMEM;
	f->absent_bytes -= mt_ranges_bytes(&f->roots.range);
	return 0;
}

/* ---- the whole ---- */

static int fold(struct mt_find *f)
{
	mt_fold_done(&f->fold);
	f->inside_count = f->inside_bytes = 0;
	for (size_t i = 0; i < f->blocks; i++)
		if (f->mark.state[i] == MT_MARK_INSIDE) {
			f->inside_count++;
			f->inside_bytes += f->bytes[i];
		}
	return mt_fold_run(&f->mark, f->block, f->bytes, f->stack, &f->fold);
}

static int make(struct maker *m, struct mt_err *err)
{
	struct mt_find *f = m->f;
	struct mt_mark_input in = {
		.flags = m->in->flags,
		.threads = m->in->threads,
		.read = read_memory,
		.context = m,
	};
	int code = walk_heap(m, err);

	if (code)
		return code;
	code = m->in->is_table ? take_table(m) : take_heap(m);
	if (code || look_at_threads(m) || find_roots(m))
		return mt_err_no_memory(err);
	in.block = f->block;
	in.blocks = f->blocks;
	in.root = f->roots.range.item;
	in.roots = f->roots.range.count;
	in.code = f->roots.code.item;
	in.codes = f->roots.code.count;
	in.value = f->roots.value;
	in.values = f->roots.values;
	in.held = m->held;
	in.held_count = m->held_count;
	code = mt_mark_run(&in, &f->mark, err);
	f->mark.skipped_bytes += f->roots.missing_bytes;
	if (!code && fold(f))
		code = mt_err_no_memory(err);
	return code;
}

int mt_find_run(struct mt_image *im, const struct mt_find_input *in, struct mt_find *ret_find,
		struct mt_err *err)
{
	mt_auto(mt_find) struct mt_find f = {0};
	mt_auto(maker) struct maker m = {.im = im, .in = in, .f = &f};
	int code = make(&m, err);

	if (code)
		return code;
	*ret_find = f;
	f = (struct mt_find){0};
	return 0;
}

int mt_find_suppress(struct mt_find *f, bool (*is_suppressed)(void *context, uint64_t stack),
		     void *context)
{
	mt_auto(free) uint32_t *held = mt_alloc_zero(f->blocks, sizeof(*held));
	mt_auto(mt_map) struct mt_map answers = {0};
	uint64_t lost = f->fold.lost_count, lost_bytes = f->fold.lost_bytes;
	size_t n = 0;

	if (!held)
		return -ENOMEM;
	for (size_t i = 0; i < f->blocks; i++) {
		bool is_new;
		uint64_t *answer;

		if (f->mark.state[i] != MT_MARK_LOST || !f->stack[i])
			continue;
		answer = mt_map_at(&answers, f->stack[i], &is_new);
		if (!answer)
			return -ENOMEM;
		if (is_new)
			*answer = is_suppressed(context, f->stack[i]);
		if (*answer)
			held[n++] = (uint32_t)i;
	}
	mt_mark_hold(&f->mark, held, n);
	if (fold(f))
		return -ENOMEM;
	f->suppressed_count += lost - f->fold.lost_count;
	f->suppressed_bytes += lost_bytes - f->fold.lost_bytes;
	return 0;
}
