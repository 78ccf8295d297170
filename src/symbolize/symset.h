/* SPDX-License-Identifier: MIT */
#ifndef MT_SYMBOLIZE_SYMSET_H
#define MT_SYMBOLIZE_SYMSET_H

/*
 * Addresses of one module and the frames they stand for, with its strings: what the module reader
 * fills and what the cache on disk holds. Not thread-safe.
 */

#include "base/map.h"

enum mt_symset_flags {
	MT_SYMSET_INLINE = 1,          /* inlined into the next frame */
	MT_SYMSET_NEAREST_DYNAMIC = 2, /* the name is that of the nearest dynamic symbol below */
	MT_SYMSET_HAS_OFFSET = 4,      /* offset is known */
	MT_SYMSET_FLAGS_ALL = 7,
};

struct mt_symset_frame {
	uint32_t function, mangled, file; /* string numbers, 0: unknown */
	uint32_t line, column;            /* 0: unknown */
	uint32_t flags;                   /* enum mt_symset_flags */
	uint64_t offset;                  /* address - start of the function's symbol */
};

/* Frames of one address, innermost inline frame first: frame[first .. first + count). */
struct mt_symset_entry {
	uint64_t vaddr; /* ELF virtual address that was looked up */
	uint32_t first, count;
};

/* All-zero is a valid empty one. */
struct mt_symset {
	struct mt_strings strings;
	struct mt_symset_entry *entry; /* owned; sorted by vaddr once mt_symset_sort() was called */
	struct mt_symset_frame *frame; /* owned */
	size_t entries, entry_cap, frames, frame_cap;
};

/* Frees the content; empty and usable again. NULL is allowed. */
void mt_symset_done(struct mt_symset *s);
MT_AUTO_DEFINE_INPLACE(mt_symset, struct mt_symset, mt_symset_done)

/* Adds an entry with no frames; the frames added next belong to it. 0 or -ENOMEM. */
int mt_symset_add_entry(struct mt_symset *s, uint64_t vaddr);

/* Adds a frame to the last entry. 0 or -ENOMEM. */
int mt_symset_add_frame(struct mt_symset *s, const struct mt_symset_frame *frame);

/* Interns text (NULL or "": 0). 0 or -ENOMEM. */
int mt_symset_string(struct mt_symset *s, const char *text, uint32_t *ret_number);

/* Sorts the entries by vaddr. */
void mt_symset_sort(struct mt_symset *s);

/* The entry of a sorted set, or NULL. Borrowed; valid until the set changes. */
const struct mt_symset_entry *mt_symset_find(const struct mt_symset *s, uint64_t vaddr);

/* Copies the entries of `from` whose vaddr `to` (sorted) lacks; `to` is sorted after. 0 or -ENOMEM.
 */
int mt_symset_merge(struct mt_symset *to, const struct mt_symset *from);

#endif
