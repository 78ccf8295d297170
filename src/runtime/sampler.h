/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_SAMPLER_H
#define MT_RUNTIME_SAMPLER_H

/*
 * The arithmetic of sampling, in integers: floating point could raise the host's traps and flags.
 *
 * Sample points form a Poisson process on the line of bytes that a thread allocates, with T bytes
 * between two on average. A block of s bytes is recorded if it covers a point: with the
 * probability p(s) = 1 - e^(-s/T). It then stands for s / p(s) bytes and 1 / p(s) blocks
 * (Horvitz-Thompson), which makes sums over samples unbiased whatever the mix of sizes. From
 * s >= T ln 100 on (p >= 99 %) a block is recorded always, stands for itself, and moves no point.
 * Nothing here has state or makes calls.
 */

#include "core/cc.h"
#include "wire/state.h"

/* Largest mean interval: 1 TiB. Keeps every product below within its words. */
#define MT_INTERVAL_MAX ((uint64_t)1 << 40)

/* What one recorded block stands for. */
struct mt_weight {
	uint64_t bytes_q16;               /* size / p, in 1/65536 */
	uint64_t count_q16;               /* 1 / p, in 1/65536 */
	unsigned __int128 bytes_variance; /* (1 - p) (size / p)^2 */
	unsigned __int128 count_variance; /* (1 - p) / p^2 */
};

/* The next number of a thread's generator (splitmix64); any seed is good. */
MT_INLINE uint64_t mt_random_next(uint64_t *state)
{
	uint64_t z = (*state += 0x9e3779b97f4a7c15u);
	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
	z = (z ^ z >> 27) * 0x94d049bb133111ebu;
	return z ^ z >> 31;
}

/*
 * Distance to the next sample point: ceil(-T ln U) for U uniform in (0, 1], made of the upper 53
 * bits of `random`. At least 1. interval: 1..MT_INTERVAL_MAX.
 */
int64_t mt_sample_distance(uint64_t interval_bytes, uint64_t random);

/* Sizes from here on are recorded always: T ln 100, rounded up; 1 for T = 1. */
uint64_t mt_sample_always_from(uint64_t interval_bytes);

/* p(size) in 1/2^62; size at least 1 and below mt_sample_always_from(). */
uint64_t mt_sample_probability_q62(uint64_t interval_bytes, uint64_t size);

/* What a recorded block of this size stands for under the regime. */
struct mt_weight mt_sample_weight(const struct mt_state_regime *regime, uint64_t size);

#endif
