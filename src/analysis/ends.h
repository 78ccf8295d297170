/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_ENDS_H
#define MT_ANALYSIS_ENDS_H

/*
 * Where call stacks end: of each allocation that has a site, whichever heap. A stack that is
 * neither complete nor cut by the limit ends in a function that could not be left: those are
 * listed.
 */

#include <stdint.h>

#include "analysis/names.h"
#include "base/cleanup.h"

struct mt_arena;
struct mt_profile;

/* enum mt_profile_stack_end, and what we make of it. */
enum {
	MT_END_GENERATED = 7, /* no unwind information, and in no module: made at run time (JIT) */
	MT_END_COUNT = 8,
};

/* A function in which stacks end. */
struct mt_end_place {
	uint32_t end;
	const char *module;   /* last part of its path; "" for generated code */
	const char *function; /* or module+0xoffset; "" for generated code */
	uint64_t allocs;
	uint32_t sites;
};

struct mt_ends {
	uint64_t allocs[MT_END_COUNT];
	uint64_t all;            /* their sum */
	uint64_t by_fp;          /* allocations whose stack has a frame found by frame pointer */
	struct mt_end_place *at; /* most allocations first */
	size_t count;
	struct mt_arena *arena; /* owns the places */
};

/* names may be NULL. 0 or -ENOMEM. Release with mt_ends_done(). */
int mt_ends_find(const struct mt_profile *const *profiles, uint32_t count,
		 const struct mt_names *names, struct mt_ends *ret_ends);
/* NULL and all-zero objects are allowed. */
void mt_ends_done(struct mt_ends *ends);
MT_AUTO_DEFINE_INPLACE(mt_ends, struct mt_ends, mt_ends_done)

#endif
