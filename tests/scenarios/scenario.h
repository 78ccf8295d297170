/* SPDX-License-Identifier: MIT */
#ifndef MT_SCENARIOS_SCENARIO_H
#define MT_SCENARIOS_SCENARIO_H

/* What scenarios share. KEEP makes the compiler believe that a block is used, and forgets it. */

#include <stddef.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline))
#else
#define NOINLINE __attribute__((noipa))
#endif
#define ALWAYS_INLINE inline __attribute__((always_inline))

static void *volatile kept __attribute__((unused));
/* Hides a value from the optimizer. */
static volatile size_t opaque_zero __attribute__((unused));

#define KEEP(expression) ((void)(kept = (void *)(expression)))

#endif
