/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_KEEPER_H
#define MT_TARGET_IMAGE_KEEPER_H

/*
 * Stops a process, or makes a copy of it, from a process of its own: the keeper. It sees to it that
 * the process goes on as if nothing had happened, also when we are killed at any moment: then it
 * puts back what it has changed, and ends.
 */

#include "base/arena.h"
#include "base/err.h"
#include "target/image.h"

struct mt_keeper;

struct mt_keeper_result {
	pid_t copy;                      /* 0: the process is stopped instead */
	struct mt_image_thread *threads; /* owned by the arena */
	size_t thread_count;
	uint64_t began_ns; /* of CLOCK_MONOTONIC, when the stop began */
	uint64_t stop_ns;  /* how long it took, 0: it lasts */
	uint64_t faults;   /* minor faults of the process when it went on */
};

/*
 * 0: the process is stopped or has a copy until mt_keeper_end(). When a copy was wanted and could
 * not be made, *err has the reason and code 0. Else a negative errno value with *err.
 */
int mt_keeper_start(pid_t pid, bool wants_copy, struct mt_arena *arena,
		    struct mt_keeper **ret_keeper, struct mt_keeper_result *ret_result,
		    struct mt_err *err);

/* Lets the process go on, ends the copy. NULL is allowed. */
void mt_keeper_end(struct mt_keeper *k);

#endif
