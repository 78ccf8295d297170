/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_BACKTRACE_H
#define MT_RUNTIME_BACKTRACE_H

/* Stacks as lines of text, as bionic's log has them. For the log of check mode. */

#include "runtime/rt.h"

/*
 * Logs at most `frames` frames of the stack from the node outward: as one message, or with
 * backtrace_full as one each.
 */
void mt_backtrace_log(uint32_t node, uint32_t frames);

/* In a forked child: no other thread is at it. */
void mt_backtrace_forget(void);

#endif
