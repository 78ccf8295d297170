/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_BACKTRACE_H
#define MT_RUNTIME_BACKTRACE_H

/* Stacks as lines of text, as bionic's log has them. For the log of check mode. */

#include "core/fmt.h"
#include "runtime/rt.h"

/* Logs at most `frames` frames of the stack from the node outward, as one message. */
void mt_backtrace_log(uint32_t node, uint32_t frames);

/* Appends one frame: "          #00  pc 0000000000001234  /lib/libx.so (name+12)". */
void mt_backtrace_frame(struct mt_fmt *f, uint32_t number, const struct mt_state_node *node);

/* In a forked child: no other thread is at it. */
void mt_backtrace_forget(void);

#endif
