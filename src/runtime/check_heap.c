/* SPDX-License-Identifier: MIT */
/* The heap as a whole; see check_heap.h. */
#include "runtime/check_heap.h"

#include "core/sys.h"
#include "elf/loader.h"
#include "runtime/guard.h"
#include "runtime/log.h"
#include "runtime/storage.h"

enum { COPY_BYTES = 1024, BLOCKS_BETWEEN_CLOCKS = 1024 };

/*
 * Another thread may free a block, and the allocator unmap it, while it is looked at: its bytes are
 * copied by a call that can fail. Alone, nobody does.
 */
static const void *look_at(const void *from, void *copy, size_t len)
{
	if (__atomic_load_n(&mt_rt.single, __ATOMIC_RELAXED))
		return from;
	return mt_loader_read(from, copy, len) ? NULL : copy;
}

/* 1: len bytes from `from` are all `byte`, or cannot be seen. */
static int is_whole(const char *from, size_t len, uint8_t byte)
{
	char copy[COPY_BYTES];
	for (size_t done = 0; done < len; done += COPY_BYTES) {
		size_t n = MT_MIN(len - done, (size_t)COPY_BYTES);
		const void *bytes = look_at(from + done, copy, n);
		if (!bytes || mt_mem_differs(bytes, byte, n) != n)
			return !bytes;
	}
	return 1;
}

static void report(struct mt_thread *t, const struct mt_use *use, const void *p, int is_front)
{
	struct mt_gone gone;
	/* its owner may have freed it meanwhile */
	if (!mt_record_find(p, &gone) || !mt_header_is_good(mt_header_of(p), p))
		return;
	struct mt_known known = {.p = p,
				 .size = gone.size,
				 .alloc = mt_cell_actor(gone.cell),
				 .alloc_call = mt_cell_call(gone.cell, 0)};
	mt_report_guard(t, use, &known, is_front);
}

/* Whether the block of this address and size is as it should be. */
static void check(struct mt_thread *t, const struct mt_use *use, uint64_t place, uint64_t size)
{
	struct mt_header copy;
	const char *p = (const char *)place;
	const struct mt_header *h = look_at(mt_header_of(p), &copy, sizeof(copy));
	if (!h || !mt_header_is_good(h, p) || h->size != size)
		return; /* freed or resized meanwhile, or damaged: its free will say so */
	uint32_t told = h->flags;
	if (told & MT_HEADER_UNCHECKED)
		return;
	if (!(told & MT_HEADER_FRONT_TOLD) &&
	    !is_whole(p - mt_layout.front, mt_layout.front, MT_BYTE_FRONT))
		report(t, use, p, 1);
	if (!(told & MT_HEADER_REAR_TOLD) && !is_whole(p + size, mt_layout.rear, MT_BYTE_REAR))
		report(t, use, p, 0);
}

/* Blocks that are copied together: what is not whole in the copies is looked at once more, alone.
 */
enum {
	BATCH = MT_LOADER_READ_MAX,
	BATCH_PIECE = 64 /* a header and a front guard of usual size */
};
struct batch {
	uint32_t count;
	uint64_t place[BATCH], size[BATCH];
};

/* Copies len bytes of each block, from its place + offset (or from its end, with size). 1: all. */
static int copy_each(const struct batch *b, const uint64_t *size, intptr_t offset, char *to,
		     size_t len)
{
	uintptr_t from[BATCH];
	for (uint32_t i = 0; i < b->count; i++)
		from[i] = b->place[i] + (size ? size[i] : 0) + (uintptr_t)offset;
	return mt_loader_read_each(from, b->count, to, len) == b->count;
}

/* The blocks of the batch that are not seen to be whole, one bit each. */
static uint32_t doubtful(const struct batch *b)
{
	char copy[BATCH * BATCH_PIECE];
	uint32_t all = (1u << b->count) - 1, bad = 0, before = mt_layout.before;
	if (before > BATCH_PIECE || mt_layout.rear > BATCH_PIECE ||
	    !copy_each(b, NULL, -(intptr_t)before, copy, before))
		return all;
	for (uint32_t i = 0; i < b->count; i++) {
		const char *at = copy + (size_t)i * before;
		struct mt_header h;
		mt_mem_copy(&h, at, sizeof(h));
		bad |= (uint32_t)(!mt_header_is_good(&h, (const void *)b->place[i]) ||
				  h.size != b->size[i] ||
				  mt_mem_differs(at + before - mt_layout.front, MT_BYTE_FRONT,
						 mt_layout.front) != mt_layout.front)
		       << i;
	}
	if (!mt_layout.rear)
		return bad;
	if (!copy_each(b, b->size, 0, copy, mt_layout.rear))
		return all;
	for (uint32_t i = 0; i < b->count; i++)
		bad |= (uint32_t)(mt_mem_differs(copy + (size_t)i * mt_layout.rear, MT_BYTE_REAR,
						 mt_layout.rear) != mt_layout.rear)
		       << i;
	return bad;
}

static void check_batch(struct mt_thread *t, const struct mt_use *use, struct batch *b)
{
	uint32_t bad = (1u << b->count) - 1;
	if (b->count > 1 && !__atomic_load_n(&mt_rt.single, __ATOMIC_RELAXED))
		bad = doubtful(b);
	for (uint32_t i = 0; i < b->count; i++)
		if (bad >> i & 1)
			check(t, use, b->place[i], b->size[i]);
	b->count = 0;
}

static void add_block(struct mt_thread *t, const struct mt_use *use, struct batch *b,
		      const uint64_t *place, uint64_t size)
{
	uint64_t p = __atomic_load_n(place, __ATOMIC_ACQUIRE);
	if (!p || mt_guard_holds((const void *)p))
		return;
	b->place[b->count] = p;
	b->size[b->count++] = size;
	if (b->count == BATCH)
		check_batch(t, use, b);
}

static int is_over(uint64_t number, uint64_t end_ns)
{
	return number % BLOCKS_BETWEEN_CLOCKS == 0 && mt_sys_clock_ns(MT_CLOCK_MONOTONIC) > end_ns;
}

/* 1, or 0 when the time was up first. */
static int check_guards(struct mt_thread *t, const struct mt_use *use, uint64_t end_ns)
{
	uint64_t small = mt_storage_in_use(MT_REGION_LIVE),
		 large = mt_storage_in_use(MT_REGION_LARGE);
	struct batch b; /* no zeros: aarch64 compilers call memset for them */
	b.count = 0;
	for (uint64_t i = 1; i < small; i++) {
		if (is_over(i, end_ns))
			return 0;
		add_block(t, use, &b, &mt_rt.live[i].place, mt_rt.live[i].size);
	}
	for (uint64_t i = 1; i < large; i++) {
		if (is_over(i, end_ns))
			return 0;
		if (mt_rt.large[i].heap == MT_HEAP_MALLOC)
			add_block(t, use, &b, &mt_rt.large[i].place, mt_rt.large[i].size);
	}
	check_batch(t, use, &b);
	return 1;
}

void mt_check_heap_at_exit(struct mt_thread *t)
{
	const struct mt_use use = {.is_look = 1};
	if (!mt_layout.has_header || !(mt_layout.front || mt_layout.rear))
		return;
	if (!check_guards(t, &use, mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + MT_CHECK_HEAP_EXIT_NS))
		mt_log(MT_LOG_ERROR, "Not all live blocks were looked at, in 2 s.");
}

void mt_check_heap(struct mt_thread *t, const struct mt_use *during)
{
	const struct mt_use use = {during->call, during->caller, .is_look = 1};
	if (mt_layout.has_header)
		check_guards(t, &use, UINT64_MAX);
	mt_quarantine_check_all(t);
}
