/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_BLOCK_H
#define MT_RUNTIME_CHECK_BLOCK_H

/*
 * A block of check mode with a guard option:
 *
 *   original                       program's pointer
 *   | (alignment) | header | front guard | size bytes | rear guard | expansion, slack |
 *
 * Without a guard option the original block is the program's. The header vouches for itself, so
 * that a block is known even where no table knows it (in a forked child, say).
 */

#include "core/mem.h"
#include "runtime/check.h"

enum {
	MT_TAG_LIVE = 0x1ee7d00d,
	MT_TAG_FREED = 0x1cc7dccd,
	MT_BYTE_ALLOC = 0xeb,
	MT_BYTE_FREE = 0xef,
	MT_BYTE_FRONT = 0xaa,
	MT_BYTE_REAR = 0xbb,
	MT_HEADER_BYTES = 32,
	MT_BLOCK_ALIGN = 16, /* of the program's pointer, at least */
	MT_GUARD_USUAL = 32, /* bytes: the default of the options */
	/* what a block with two such guards has in front of it, and in all */
	MT_BLOCK_USUAL_BEFORE = MT_HEADER_BYTES + MT_GUARD_USUAL,
	MT_BLOCK_USUAL_EXTRA = MT_BLOCK_USUAL_BEFORE + MT_GUARD_USUAL,
};

struct mt_header {
	uint32_t tag;
	uint32_t seal;     /* over all the rest and the block's address: mt_header_seal() */
	uint32_t flags;    /* enum mt_header_flags */
	uint32_t distance; /* from the allocator's pointer to the program's */
	uint64_t size;     /* asked for */
	uint64_t usable;   /* what malloc_usable_size() says */
};
enum mt_header_flags {
	MT_HEADER_NEW = 1, /* made by operator new */
	MT_HEADER_NEW_ARRAY = 2,
	MT_HEADER_FRONT_TOLD = 4, /* the damage of this guard was reported */
	MT_HEADER_REAR_TOLD = 8,
	MT_HEADER_UNCHECKED = 16, /* left out by only_...: the guards hold nothing */
};

/* What a block's guards and header take, from the options. */
struct mt_layout {
	uint32_t has_header;
	uint32_t before; /* bytes from the header to the program's pointer */
	uint32_t front, rear;
	uint64_t extra; /* bytes added to each request */
	uint64_t secret;
};
extern struct mt_layout mt_layout MT_HIDDEN;

void mt_layout_begin(const struct mt_check_options *o);

/*
 * Headers and guards keep blocks apart, further than the allocator does: the index's granule, as a
 * shift. Its map is the smaller for it.
 */
uint32_t mt_layout_granule(void);

MT_INLINE struct mt_header *mt_header_of(const void *p)
{
	return (struct mt_header *)((uintptr_t)p - mt_layout.before);
}

/* p: where the block is, which may be another place than h's. */
MT_INLINE uint32_t mt_header_seal(const struct mt_header *h, const void *p)
{
	uint64_t x = (((uintptr_t)p ^ mt_layout.secret) + h->usable) * 0x9e3779b97f4a7c15u;
	x ^= (h->flags | (uint64_t)h->distance << 32) ^ (h->size << 20 | h->size >> 44);
	return (uint32_t)(x * 0xff51afd7ed558ccdu >> 32);
}

MT_INLINE int mt_header_is_good(const struct mt_header *h, const void *p)
{
	return h->tag == MT_TAG_LIVE && h->seal == mt_header_seal(h, p);
}

MT_INLINE void *mt_header_original(const struct mt_header *h, const void *p)
{
	return (void *)((uintptr_t)p - h->distance);
}

/* Fills a guard: nearly always of the usual size. */
MT_INLINE void mt_guard_bytes_fill(void *guard, uint8_t byte, uint32_t len)
{
	mt_word *w = guard, word = byte * 0x0101010101010101u;
	if (MT_UNLIKELY(len != MT_GUARD_USUAL)) {
		mt_mem_fill(guard, byte, len);
		return;
	}
	w[0] = word;
	w[1] = word;
	w[2] = word;
	w[3] = word;
}

/* 1: all bytes of a guard of the usual size are as they were written. */
MT_INLINE int mt_guard_usual_holds(const void *guard, uint8_t byte)
{
	return mt_words_are(guard, byte * 0x0101010101010101u);
}

/* The same of any size. */
MT_INLINE int mt_guard_bytes_hold(const void *guard, uint8_t byte, uint32_t len)
{
	if (MT_UNLIKELY(len != MT_GUARD_USUAL))
		return mt_mem_differs(guard, byte, len) == len;
	return mt_guard_usual_holds(guard, byte);
}

/*
 * Writes header and guards of a block of `size` bytes in the original, which is large enough: the
 * program's pointer, a multiple of align (a power of two, at least 16).
 */
uint64_t mt_block_usable(const void *p, void *original, size_t size);
MT_INLINE void *mt_block_dress(void *original, size_t size, size_t align, uint32_t flags)
{
	const struct mt_layout *l = &mt_layout;
	char *p = (char *)MT_ALIGN_UP((uintptr_t)original + l->before, (uintptr_t)align);
	struct mt_header *h = mt_header_of(p);
	if (MT_LIKELY(!(flags & MT_HEADER_UNCHECKED))) {
		if (MT_LIKELY(l->front))
			mt_guard_bytes_fill(p - l->front, MT_BYTE_FRONT, l->front);
		if (MT_LIKELY(l->rear))
			mt_guard_bytes_fill(p + size, MT_BYTE_REAR, l->rear);
	}
	h->flags = flags;
	h->distance = (uint32_t)((uintptr_t)p - (uintptr_t)original);
	h->size = size;
	h->usable = MT_LIKELY(l->rear) ? size : mt_block_usable(p, original, size);
	h->seal = mt_header_seal(h, p);
	h->tag = MT_TAG_LIVE;
	return p;
}

/* The same where both guards have the usual size, and the original is aligned as a block is. */
MT_INLINE struct mt_header *mt_header_of_usual(const void *p)
{
	return (struct mt_header *)((uintptr_t)p - MT_BLOCK_USUAL_BEFORE);
}

MT_INLINE void *mt_block_dress_usual(void *original, size_t size, uint32_t flags)
{
	char *p = (char *)original + MT_BLOCK_USUAL_BEFORE;
	struct mt_header *h = original;
	mt_guard_bytes_fill(p - MT_GUARD_USUAL, MT_BYTE_FRONT, MT_GUARD_USUAL);
	mt_guard_bytes_fill(p + size, MT_BYTE_REAR, MT_GUARD_USUAL);
	h->flags = flags;
	h->distance = MT_BLOCK_USUAL_BEFORE;
	h->size = size;
	h->usable = size;
	h->seal = mt_header_seal(h, p);
	h->tag = MT_TAG_LIVE;
	return p;
}

/* What made the block: malloc stands for all that are no operators. */
MT_INLINE uint32_t mt_header_flags(enum mt_state_call call)
{
	return call == MT_CALL_NEW         ? MT_HEADER_NEW
	       : call == MT_CALL_NEW_ARRAY ? MT_HEADER_NEW_ARRAY
					   : 0;
}

MT_INLINE uint32_t mt_header_made_by(const struct mt_header *h)
{
	return h->flags & MT_HEADER_NEW_ARRAY ? MT_CALL_NEW_ARRAY
	       : h->flags & MT_HEADER_NEW     ? MT_CALL_NEW
					      : MT_CALL_MALLOC;
}

/* Sets flags of a good header. */
void mt_header_mark(struct mt_header *h, const void *p, uint32_t flags);

/* The block shrinks in place: header and rear guard follow. */
void mt_block_resize(void *p, size_t size);

/* Offsets from p of the changed bytes of a guard; count 0: it is whole. */
struct mt_changed {
	int64_t first, last;
	uint64_t count;
};
struct mt_changed mt_block_front(const void *p);
struct mt_changed mt_block_rear(const void *p, size_t size);

/* The same for any bytes that should be `byte`; offsets are counted from `origin`. */
struct mt_changed mt_bytes_changed(const void *from, size_t len, uint8_t byte, const void *origin);

#endif
