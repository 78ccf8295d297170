/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_CALLSTACK_H
#define MT_ANALYSIS_CALLSTACK_H

/*
 * callstack_hash: the name of a call stack that is the same in every run, whatever the addresses.
 * 64 bits over the frames' (build-id or module path, offset in the module) pairs, outermost first.
 * Frames of memtrack itself at the inner end do not count. Deterministic, not cryptographic.
 */

#include <stdint.h>

#include "analysis/names.h"

struct mt_profile;

/* The innermost frame that is not memtrack's own: where the program asked. 0: no such frame. */
uint32_t mt_callstack_top(const struct mt_profile *p, uint32_t node);

/*
 * The hash of every node's stack, indexed by node; look up mt_callstack_top(). With `by_names` a
 * frame counts by its function names, so that two builds of a program can be compared; frames
 * without a name count by their module's last path part alone. Caller frees with free(); NULL:
 * ENOMEM.
 */
uint64_t *mt_callstack_hashes(const struct mt_profile *p, const struct mt_names *by_names);

#endif
