/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_COPY_H
#define MT_TARGET_IMAGE_COPY_H

/* A copy of a stopped process: the same memory, no descriptors, never running. For the keeper. */

#include "target/image_stop.h"

/*
 * Makes it; the process is as it was then, and so it is after a failure. 0: the copy is a stopped
 * tracee that dies with us, and is to be ended with mt_copy_end(). Else a negative errno value with
 * the reason in *why.
 */
int mt_copy_make(const struct mt_stop *s, pid_t *ret_copy, struct mt_err *why);

/* Ends it. 0 is allowed. */
void mt_copy_end(pid_t copy);

#endif
