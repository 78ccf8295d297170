/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_UNWIND_WALK_H
#define MT_TESTS_UNWIND_WALK_H

#include "unwind/capture.h"

/*
 * The walk that the fast one must equal: no cache, no reuse; every step by the unpacked rule.
 * Writes up to max return addresses, innermost first; returns the count, *ret_end how it ended.
 * Uses mt_unwind.modules as it is (does not ask for a refresh).
 */
uint32_t mt_walk_reference(uintptr_t sp, uintptr_t ra, uintptr_t fp, uintptr_t *ret_ra,
			   uint32_t max, enum mt_stack_end *ret_end);

#endif
