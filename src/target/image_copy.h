/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_COPY_H
#define MT_TARGET_IMAGE_COPY_H

/* A copy of a stopped process: the same memory, no descriptors, never running. For the keeper. */

#include "target/image_stop.h"

/*
 * Whether a process should rather not be copied, before it is stopped: what it writes to while a
 * copy is there takes memory twice. 0, or a negative errno value with the reason in *why.
 */
int mt_copy_refuse(pid_t pid, struct mt_err *why);

/*
 * Makes it; the process is as it was then, and so it is after a failure. 0: the copy is a stopped
 * tracee that dies with us, or first of all when memory runs out, and is to be ended with
 * mt_copy_end(). Else a negative errno value with
 * the reason in *why.
 */
int mt_copy_make(const struct mt_stop *s, pid_t *ret_copy, struct mt_err *why);

/* Ends it. 0 is allowed. */
void mt_copy_end(pid_t copy);

#endif
