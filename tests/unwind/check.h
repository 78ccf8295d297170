/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_UNWIND_CHECK_H
#define MT_TESTS_UNWIND_CHECK_H

/*
 * A capture that is checked: by memo, by join alone and by walk alone, each against
 * mt_walk_reference(), and that against libunwind, or where it is not there libgcc. Per thread.
 */

#include "unwind_fixture.h"

enum check_oracle {
	CHECK_SAME = 0,   /* the other unwinder must give the same stack, to its end */
	CHECK_PREFIX = 1, /* our stack may end earlier (code without unwind information) */
	CHECK_ALONE = 2,  /* it is not asked */
};

struct check_result {
	uint64_t captures, wrong, oracle_wrong, memo_hits, joined;
	uint32_t count; /* frames of the last stack */
	enum mt_stack_end end;
	uint32_t flags;                 /* of all its frames, or-ed */
	uintptr_t ra[MT_DEPTH_MAX + 1]; /* innermost first */
};
extern __thread struct check_result check_result;
extern __thread enum check_oracle check_oracle;
extern __thread uint32_t check_depth; /* depth limit of captures made from now on; 0: 256 */

/* Drops this thread's capture state. */
void check_done(void);

#endif
