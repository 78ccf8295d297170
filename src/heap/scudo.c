/* SPDX-License-Identifier: MIT */
/*
 * Reads the heap of scudo standalone, as LLVM 14 builds it for x86-64 Linux. Regions of 4 GiB, one
 * for each of 45 sizes, lie one behind the other: the array that describes them is the place in the
 * library's writable memory where 45 elements agree on that. Each block has a header with its state
 * and a checksum over a secret, its address and itself: the secret is the word in front of the
 * array with which headers are right. Free blocks say so themselves, wherever they are kept.
 */

#include "heap/build.h"

#include "base/alloc.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum {
	CLASSES = 45,
	CLASS_OWN = 0, /* the allocator's batches of free blocks */
	REGION_SHIFT = 32,
	OFFSET_MAX = 16 << 12, /* a region begins at a random page */
	MAP_STEP = 1 << 18,
	HEADER = 16,        /* in front of a block; its first 8 bytes count */
	MARK = 0x44554353,  /* an aligned block begins further behind */
	SECRET_BACK = 192,  /* how far before the array the secret is */
	PROOFS = 64,        /* headers with which it is tried */
	PROOF_SLOTS = 4096, /* of each size among which they are looked for: in no order */
	AT_LARGES = 10224,  /* from the array on: what is known of blocks with mappings */
	LARGE_MAX = 1 << 20,
};

enum { AVAILABLE, ALLOCATED, QUARANTINED };

struct region {
	uint32_t mutex, pad;
	uint64_t batches, first_batch, last_batch, start, popped, pushed;
	uint32_t random, pad_2;
	uint64_t mapped_bytes, used_bytes, more[14];
};
_Static_assert(sizeof(struct region) == 192, "as RegionInfo, with padding");

/* In front of a block with a mapping of its own. */
struct large {
	uint64_t before, next, commit, commit_bytes, map, map_bytes;
};

/* What is known of those. */
struct larges {
	uint64_t count, first, last, allocated_bytes, freed_bytes, largest_bytes;
	uint32_t allocated, freed;
};

/* The pool of sampled blocks, each on a page of its own between others that cannot be touched. */
struct pool {
	char magic[4];
	uint32_t version;
	uint64_t slots, start, end, page_bytes, failure[2];
};
struct sampled {
	uint64_t address, bytes, stacks[68];
	uint8_t is_freed, pad[7];
};
_Static_assert(sizeof(struct sampled) == 568, "as gwp_asan::AllocationMetadata");
enum { AT_SAMPLED_MAX = 256, SAMPLED_MAX = 1 << 16 };

struct scudo {
	struct mt_heap_build *b;
	const struct mt_image_module *module;
	uint64_t array; /* of regions */
	struct region region[CLASSES];
	uint32_t secret;
	bool has_larges, has_sampled;
	struct pool pool;
	uint64_t sampled, sampled_count;
	struct larges larges;
	struct mt_heap_arena *arena;
};

static uint64_t class_bytes(unsigned class)
{
	uint64_t step = 256;

	if (class <= 8)
		return 32ull * class;
	step <<= (class - 8) >> 2;
	return step + (step >> 2) * ((class - 8) & 3);
}

/* ---- headers ---- */

/* The checksum that BSD's sum is, of 16 bits. */
static uint16_t add_word(uint16_t sum, uint64_t word)
{
	for (int i = 0; i < 8; i++, word >>= 8)
		sum = (uint16_t)((sum >> 1 | sum << 15) + (word & 255));
	return sum;
}

/* Whether a header is that of the block at an address. */
static bool is_header(uint64_t block, uint64_t header, uint32_t secret)
{
	uint16_t sum = add_word((uint16_t)secret, block);

	return add_word(sum, header & 0xffffffffffff) == header >> 48;
}

static unsigned state_of(uint64_t header)
{
	return header >> 8 & 3;
}

static uint64_t size_of(uint64_t header)
{
	return header >> 12 & 0xfffff;
}

/* The block in a slot, and its header. 0, or -EFAULT. */
static int read_slot(struct scudo *s, uint64_t slot, uint64_t *ret_block, uint64_t *ret_header)
{
	uint32_t mark[2];
	uint64_t block = slot + HEADER;

	if (mt_peek(&s->b->peek, slot, mark, sizeof(mark)))
		return -EFAULT;
	if (mark[0] == MARK)
		block += mark[1];
	*ret_block = block;
	return mt_peek_u64(&s->b->peek, block - HEADER, ret_header);
}

/* ---- finding ---- */

static bool is_region(const struct region *r, unsigned class, uint64_t base)
{
	uint64_t from = base + ((uint64_t) class << REGION_SHIFT);

	return r->start >= from && r->start - from <= OFFSET_MAX && !(r->start & 4095) &&
	       !(r->mapped_bytes & (MAP_STEP - 1)) && r->used_bytes <= r->mapped_bytes &&
	       r->mapped_bytes < 1ull << REGION_SHIFT &&
	       (class == CLASS_OWN || r->used_bytes % class_bytes(class) == 0);
}

static bool are_regions(const struct scudo *s)
{
	const struct region *r = s->region;
	bool is_used = false;

	if (!r[0].start || r[0].start & 4095)
		return false;
	/* where the first one begins is random, too */
	for (unsigned pages = 0; pages <= OFFSET_MAX >> 12; pages++) {
		uint64_t base = r[0].start - ((uint64_t)pages << 12);
		unsigned class = 0;

		while (class < CLASSES && is_region(&r[class], class, base))
			is_used |= r[class ++].used_bytes > 0;
		if (class < CLASSES)
			continue;
		while (class &&
		       mt_heap_is_writable(s->b, r[class - 1].start, r[class - 1].used_bytes))
			class --;
		return is_used && !class;
	}
	return false;
}

/* Whether the word in front of the array is the secret: most of some headers must be right. */
static bool find_secret(struct scudo *s, const uint8_t *data, size_t at)
{
	unsigned count = 0, right = 0;

	if (at < SECRET_BACK)
		return false;
	memcpy(&s->secret, data + at - SECRET_BACK, sizeof(s->secret));
	for (unsigned class = 1; class < CLASSES && count < PROOFS; class ++) {
		const struct region *r = &s->region[class];
		uint64_t bytes = class_bytes(class);
		uint64_t end = r->start + MT_MIN(r->used_bytes, PROOF_SLOTS * bytes);

		for (uint64_t slot = r->start; slot < end && count < PROOFS; slot += bytes) {
			uint64_t block, header;

			if (read_slot(s, slot, &block, &header) || !(header >> 48))
				continue;
			count++;
			right += is_header(block, header, s->secret);
		}
	}
	return right && right * 2 >= count;
}

static bool is_large(struct scudo *s, uint64_t at, const struct large *l, uint64_t before)
{
	uint64_t end = l->commit + l->commit_bytes;

	return l->before == before && l->commit <= at && end > at + sizeof(*l) &&
	       l->map <= l->commit && l->map + l->map_bytes >= end &&
	       mt_heap_is_writable(s->b, at, end - at);
}

/* Whether this is the list of blocks with mappings of their own: it leads to its end, and counts.
 */
static bool are_larges(struct scudo *s, const struct larges *k)
{
	uint64_t at = k->first, before = 0;

	if (k->count != (uint32_t)(k->allocated - k->freed) || k->count > LARGE_MAX ||
	    !k->count != !k->first || !k->first != !k->last)
		return false;
	for (uint64_t i = 0; i < k->count; i++) {
		struct large l;

		if (mt_peek(&s->b->peek, at, &l, sizeof(l)) || !is_large(s, at, &l, before))
			return false;
		before = at;
		at = l.next;
	}
	return !at && before == k->last;
}

static int read_sampled(struct scudo *s, uint64_t table, uint64_t i, struct sampled *k)
{
	int code = mt_peek(&s->b->peek, table + i * sizeof(*k), k, sizeof(*k));

	if (code)
		return code;
	return k->address >= s->pool.start && k->address < s->pool.end &&
			       k->bytes <= s->pool.page_bytes && k->is_freed <= 1
		       ? 0
		       : -EINVAL;
}

/* The table of sampled blocks: how many there are and where stand somewhere behind the pool. */
static void find_table(struct scudo *s, const uint8_t *data, size_t bytes)
{
	for (size_t at = sizeof(s->pool); at + 16 <= MT_MIN(bytes, AT_SAMPLED_MAX); at += 8) {
		uint64_t words[2], i = 0;
		struct sampled k;

		memcpy(words, data + at, sizeof(words));
		if (words[0] > s->pool.slots || !words[1] || words[1] & 7 ||
		    !mt_heap_is_writable(s->b, words[1], s->pool.slots * sizeof(k)))
			continue;
		while (i < words[0] && !read_sampled(s, words[1], i, &k))
			i++;
		if (i < words[0])
			continue;
		s->sampled_count = words[0];
		s->sampled = words[1];
		s->has_sampled = true;
		return;
	}
}

static void find_sampled(struct scudo *s, const uint8_t *data, size_t bytes)
{
	for (size_t at = 0; at + sizeof(s->pool) <= bytes; at += 8) {
		struct pool k;

		memcpy(&k, data + at, sizeof(k));
		if (memcmp(k.magic, "ASAN", 4) || k.page_bytes != 4096 || !k.start ||
		    k.slots > SAMPLED_MAX || k.end - k.start != (2 * k.slots + 1) * k.page_bytes)
			continue;
		s->pool = k;
		find_table(s, data + at, bytes - at);
		return;
	}
}

static int find_in_segment(struct scudo *s, const struct mt_image_segment *seg)
{
	size_t bytes, found = 0;
	mt_auto(free) uint8_t *data = mt_heap_segment_bytes(s->b->im, seg, &bytes);

	if (!data)
		return -ENOMEM;
	for (size_t at = 0; at + sizeof(s->region) <= bytes && !s->array; at += 64) {
		memcpy(&s->region[0], data + at, sizeof(s->region[0]));
		if (!s->region[0].start || s->region[0].start & 4095)
			continue;
		memcpy(s->region, data + at, sizeof(s->region));
		if (!are_regions(s))
			continue;
		found = at;
		if (find_secret(s, data, at))
			s->array = seg->start + at;
	}
	if (!s->array)
		return -ENOENT;
	if (found + AT_LARGES + sizeof(s->larges) > bytes) {
		s->array = 0;
		return -ENOENT;
	}
	memcpy(&s->larges, data + found + AT_LARGES, sizeof(s->larges));
	s->has_larges = are_larges(s, &s->larges);
	find_sampled(s, data, bytes);
	return 0;
}

static int find(struct scudo *s, struct mt_err *err)
{
	int code = -ENOENT;

	for (uint32_t i = 0; i < s->module->segment_count && code == -ENOENT; i++)
		if (s->module->segments[i].flags & MT_MAPPING_WRITE &&
		    s->b->arch == MT_IMAGE_X86_64)
			code = find_in_segment(s, &s->module->segments[i]);
	if (code == -ENOMEM)
		return mt_err_no_memory(err);
	if (code)
		return mt_err_set(err, -ENOTSUP,
				  "nothing in '%s' is built as the regions of scudo standalone of "
				  "LLVM 14 are, with a secret that its headers prove: the layout "
				  "of its heap is not known",
				  s->module->path);
	return 0;
}

/* ---- blocks ---- */

/* Whether a slot's block is not live. */
static bool take_small(struct scudo *s, unsigned class, uint64_t slot)
{
	uint64_t block, header, bytes = class_bytes(class);

	if (read_slot(s, slot, &block, &header)) {
		s->b->h->skipped_bytes += bytes;
		return false;
	}
	/* a slot that was never given has no header */
	if (header && (!is_header(block, header, s->secret) || block - slot >= bytes ||
		       (header & 255) != class || state_of(header) > QUARANTINED)) {
		mt_heap_add_damage(s->b, slot, "the header of this block is damaged");
		s->b->h->skipped_bytes += bytes;
		return false;
	}
	if (header && state_of(header) == ALLOCATED) {
		mt_heap_add_live(s->b, 0, block, MT_MIN(size_of(header), slot + bytes - block));
		return false;
	}
	s->arena->free_blocks++;
	s->arena->free_bytes += bytes;
	return true;
}

/* Whole pages among the free slots from `from` to `to`. */
static void count_free_pages(struct scudo *s, uint64_t from, uint64_t to)
{
	from = MT_ALIGN_UP(from, s->b->page_bytes);
	to = MT_ALIGN_DOWN(to, s->b->page_bytes);
	s->arena->free_page_bytes += to > from ? to - from : 0;
}

static void walk_region(struct scudo *s, unsigned class)
{
	const struct region *r = &s->region[class];
	uint64_t bytes = class_bytes(class), end = r->start + r->used_bytes;

	mt_heap_add_range(s->b, r->start, r->start + r->mapped_bytes, 0);
	s->arena->held_bytes += r->used_bytes;
	if (class == CLASS_OWN) {
		s->arena->own_blocks++;
		s->arena->own_bytes += r->used_bytes;
		return;
	}
	uint64_t run = r->start; /* of free slots */

	for (uint64_t slot = r->start; slot < end && !s->b->failed; slot += bytes)
		if (!take_small(s, class, slot)) {
			count_free_pages(s, run, slot);
			run = slot + bytes;
		}
	count_free_pages(s, run, end);
}

static void walk_larges(struct scudo *s)
{
	uint64_t at = s->larges.first;

	if (!s->has_larges)
		mt_heap_add_damage(s->b, s->array + AT_LARGES,
				   "the list of blocks with mappings of their own does not agree "
				   "with itself: they are missing");
	for (uint64_t i = 0; s->has_larges && i < s->larges.count && !s->b->failed; i++) {
		uint64_t block, header, end;
		struct large l;

		if (mt_peek(&s->b->peek, at, &l, sizeof(l)))
			return;
		end = l.commit + l.commit_bytes;
		mt_heap_add_range(s->b, l.commit, end, 0);
		s->arena->held_bytes += l.commit_bytes;
		if (read_slot(s, at + sizeof(l), &block, &header) || block >= end || header & 255 ||
		    !is_header(block, header, s->secret) || size_of(header) > end - block) {
			mt_heap_add_damage(s->b, at + sizeof(l),
					   "the header of this block is damaged");
			s->b->h->skipped_bytes += l.commit_bytes;
		} else if (state_of(header) == ALLOCATED) {
			uint64_t bytes = end - block - size_of(header);

			mt_heap_add_live(s->b, 0, block, bytes);
			s->arena->mapped_blocks++;
			s->arena->mapped_bytes += bytes;
		}
		at = l.next;
	}
}

static void walk_sampled(struct scudo *s)
{
	if (!s->pool.start)
		return;
	mt_heap_add_range(s->b, s->pool.start, s->pool.end, 0);
	if (!s->has_sampled)
		mt_heap_add_damage(
			s->b, s->pool.start,
			"the table of this pool of sampled blocks is not found: they are "
			"missing");
	for (uint64_t i = 0; i < s->sampled_count && !s->b->failed; i++) {
		struct sampled k;

		if (read_sampled(s, s->sampled, i, &k) || k.is_freed)
			continue;
		mt_heap_add_live(s->b, 0, k.address, k.bytes);
		s->arena->held_bytes += s->pool.page_bytes;
	}
}

int mt_heap_read_scudo(struct mt_heap_build *b, const struct mt_image_module *module,
		       struct mt_err *err)
{
	struct scudo *s = mt_alloc_zero(1, sizeof(*s));
	int code;

	if (!s)
		return mt_err_no_memory(err);
	s->b = b;
	s->module = module;
	code = find(s, err);
	if (!code) {
		memcpy(b->h->version, "as in LLVM 14", sizeof("as in LLVM 14"));
		mt_heap_add_arena(b, s->array);
		s->arena = b->failed ? NULL : &b->h->arenas[0];
		for (unsigned class = 0; class < CLASSES && !b->failed; class ++)
			walk_region(s, class);
		if (!b->failed)
			walk_larges(s);
		if (!b->failed)
			walk_sampled(s);
		code = b->failed ? mt_err_no_memory(err) : 0;
	}
	free(s);
	return code;
}
