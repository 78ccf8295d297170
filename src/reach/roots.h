/* SPDX-License-Identifier: MIT */
#ifndef MT_REACH_ROOTS_H
#define MT_REACH_ROOTS_H

/*
 * Where a program can hold a pointer without holding it in a block: writable segments of modules,
 * stacks, registers, thread-local memory, other mappings. docs/reachability.md says why each is
 * taken as it is. Works on plain data; nothing is read.
 */

#include "reach/range.h"
#include "target/image.h"

enum mt_roots_kind {
	MT_ROOTS_GLOBALS, /* writable segments of modules */
	MT_ROOTS_STACKS,
	MT_ROOTS_TLS,   /* static thread-local memory and thread descriptors, outside of stacks */
	MT_ROOTS_HEAP,  /* memory of the heap that is in use, and in no block that we know */
	MT_ROOTS_CODE,  /* machine code that was made at run time: pointers are parts of it */
	MT_ROOTS_OTHER, /* other private writable mappings */
	MT_ROOTS_KINDS,
};

struct mt_roots_input {
	enum mt_image_arch arch;
	pid_t pid;
	const struct mt_mapping *mapping;
	size_t mappings;
	const struct mt_image_thread *thread;
	size_t threads;
	const struct mt_image_module *module;
	size_t modules;
	/* all of these are tidy */
	const struct mt_range *block; /* never scanned as roots */
	size_t blocks;
	const struct mt_range *heap; /* owned by the allocator: neither */
	size_t heaps;
	const struct mt_range *in_use; /* of the heap, but for blocks: scanned all the same */
	size_t in_uses;
	const struct mt_range *own; /* structures of the allocator, and what is the tracker's */
	size_t owns;
	const struct mt_range *missing; /* that a core file should hold, and does not */
	size_t missings;
	bool is_strict; /* none of MT_ROOTS_CODE and MT_ROOTS_OTHER */
};

struct mt_roots {
	struct mt_ranges range;         /* tidy; all but code */
	struct mt_ranges code;          /* tidy */
	uint64_t bytes[MT_ROOTS_KINDS]; /* each address counts once, for the first kind */
	uint64_t missing_bytes;         /* would be in them, but are missing */
	uint64_t *value;                /* owned: words of registers */
	size_t values;
	uint32_t missing_threads; /* whose stack is scanned as a whole, and no registers */
	uint32_t strange_stacks;  /* threads that run on another stack than their own */
};

/* NULL is fine. */
void mt_roots_done(struct mt_roots *r);
MT_AUTO_DEFINE_INPLACE(mt_roots, struct mt_roots, mt_roots_done)

/* Memory that processes share without a file that others could open by name. */
bool mt_roots_is_shared_memory(const struct mt_mapping *m);

/* 0 or -ENOMEM. */
int mt_roots_find(const struct mt_roots_input *in, struct mt_roots *ret_roots);

#endif
