/* SPDX-License-Identifier: MIT */
#ifndef MT_UNWIND_MEMO_H
#define MT_UNWIND_MEMO_H

/*
 * The memo of one thread: whole stacks by (ra, sp, tag), each with the words that a walk read. A
 * remembered stack is believed only while every word still has its value. 256 sets of 2 entries,
 * about 300 KiB, touched as they are used. A stack is remembered when it comes back before two
 * others missed in its set: most stacks of a compiler do not, and to remember one costs as much as
 * to walk it. Owner thread only.
 */

#include "core/cc.h"

enum { MT_MEMO_SETS = 256, MT_MEMO_WAYS = 2, MT_MEMO_WORDS = 52, MT_MEMO_UNROLL = 4 };

struct mt_memo_entry {
	uintptr_t ra, sp; /* key, with tag; ra 0: free */
	uint64_t tag;
	uintptr_t fp;
	uint32_t token;
	uint32_t span_bytes; /* words lie in [sp, sp + span_bytes) */
	uint16_t count;      /* a multiple of MT_MEMO_UNROLL: the last word stands there again */
	uint16_t needs_fp;
	uint32_t reserved;
	uint16_t offset[MT_MEMO_WORDS]; /* (address - sp) / 8, in the order of the walk */
	uint64_t value[MT_MEMO_WORDS];
	uint64_t reserved2;
};
_Static_assert(sizeof(struct mt_memo_entry) == 576, "9 cache lines: cheap to index");

struct mt_memo {
	uint64_t used[MT_MEMO_SETS / 64]; /* sets with an entry */
	uint64_t reserved[8 - MT_MEMO_SETS / 64];
	uint64_t missed[MT_MEMO_SETS][2]; /* hashes of the stacks that missed last */
	struct mt_memo_entry entry[MT_MEMO_SETS][MT_MEMO_WAYS];
};

typedef uintptr_t __attribute__((may_alias)) mt_memo_word;

/* The tag takes no part: one call instruction rarely has two. */
MT_INLINE uint32_t mt_memo_set(uintptr_t sp, uintptr_t ra)
{
	return (uint32_t)((ra ^ (uint64_t)sp << 20) * 0x9e3779b97f4a7c15u >> 56);
}

/*
 * Whether each remembered word still has its value. Words are compared in the order of the walk and
 * the first difference ends it, so no address is read that a walk from here would not read.
 */
MT_INLINE int mt_memo_holds(const struct mt_memo_entry *e, uintptr_t sp)
{
	const uint16_t *offset = e->offset, *end = offset + e->count;
	const uint64_t *value = e->value;
	const mt_memo_word *stack = (const mt_memo_word *)sp;
	for (; offset < end; offset += MT_MEMO_UNROLL, value += MT_MEMO_UNROLL) {
		if (MT_UNLIKELY(stack[offset[0]] != value[0]) ||
		    MT_UNLIKELY(stack[offset[1]] != value[1]) ||
		    MT_UNLIKELY(stack[offset[2]] != value[2]) ||
		    MT_UNLIKELY(stack[offset[3]] != value[3]))
			return 0;
	}
	return 1;
}

MT_INLINE int mt_memo_is(const struct mt_memo_entry *e, uintptr_t sp, uintptr_t ra, uintptr_t fp,
			 uint64_t tag, uintptr_t hi)
{
	if (MT_UNLIKELY(e->ra != ra || e->sp != sp || e->tag != tag))
		return 0;
	if (MT_UNLIKELY((intptr_t)(hi - sp) < (intptr_t)e->span_bytes))
		return 0;
	if (MT_UNLIKELY(e->needs_fp) && e->fp != fp)
		return 0;
	return mt_memo_holds(e, sp);
}

/* The remembered stack at (sp, ra, fp) on a stack that ends at hi if it still stands, or NULL. */
MT_INLINE const struct mt_memo_entry *mt_memo_find(const struct mt_memo *memo, uintptr_t sp,
						   uintptr_t ra, uintptr_t fp, uint64_t tag,
						   uintptr_t hi)
{
	const struct mt_memo_entry *e = memo->entry[mt_memo_set(sp, ra)];
	if (MT_LIKELY(mt_memo_is(e, sp, ra, fp, tag, hi)))
		return e;
	return mt_memo_is(e + 1, sp, ra, fp, tag, hi) ? e + 1 : NULL;
}

/* Makes the memo empty. memo may be NULL. */
void mt_memo_forget(struct mt_memo *memo);

/* A stack has missed. 1: it did so a short time ago as well, and is to be remembered. */
int mt_memo_missed(struct mt_memo *memo, uintptr_t sp, uintptr_t ra, uint64_t hash, uint32_t turn);

/*
 * Begins an entry: it stays free until mt_memo_end(). needs_fp: the walk used the innermost frame's
 * fp. `turn` chooses which entry of a full set goes.
 */
struct mt_memo_entry *mt_memo_begin(struct mt_memo *memo, uintptr_t sp, uintptr_t ra, uintptr_t fp,
				    int needs_fp, uint64_t tag, uint32_t turn);

/* The next word that the walk read. 0, or -EINVAL: does not fit. */
MT_INLINE int mt_memo_add(struct mt_memo_entry *e, uintptr_t address, uint64_t value)
{
	uintptr_t offset = address - e->sp;
	if (MT_UNLIKELY(e->count == MT_MEMO_WORDS || (offset & 7) || offset / 8 > UINT16_MAX))
		return -22; /* EINVAL */
	e->offset[e->count] = (uint16_t)(offset / 8);
	e->value[e->count++] = value;
	if (offset + 8 > e->span_bytes)
		e->span_bytes = (uint32_t)offset + 8;
	return 0;
}

void mt_memo_end(struct mt_memo_entry *e, uintptr_t ra, uint32_t token);

#endif
