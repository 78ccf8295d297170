/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_CHECK_RANDOM_H
#define MT_TESTS_CHECK_RANDOM_H

#include <stdint.h>

/* The same numbers for the same seed (never 0), everywhere. */
static inline uint32_t next_random(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return (uint32_t)(*state >> 16);
}

/* From 0 up to below n. */
static inline uint32_t below(uint64_t *state, uint32_t n)
{
	return next_random(state) % n;
}

#endif
