/* SPDX-License-Identifier: MIT */
#ifndef MT_MODEL_ESTIMATE_H
#define MT_MODEL_ESTIMATE_H

/*
 * What a sample says about all blocks. docs/sampling.md explains it to users and names the sources.
 *
 * T is the mean number of bytes between two sample points, s a block's size (0 counts as 1). A
 * block is recorded when a point of a Poisson process on the line of allocated bytes falls into it:
 *
 *     p(s) = 1 - exp(-s / T)            computed as -expm1(-s / T)
 *     p(s) = 1  when s >= T ln 100      "99 % rule": always recorded, weight 1
 *     p    = 1 / N                      one of every N allocations, whatever its size
 *
 * A recorded block stands for 1 / p blocks and s / p bytes (Horvitz and Thompson 1952: right in the
 * mean for every p). Each is weighed before they are summed; the sum of the sizes over the mean
 * probability would be wrong. No weight that is right in the mean has a smaller variance on the
 * same samples (Rao and Blackwell; those of heapprofd, points * T, and of tcmalloc, T + s - f, have
 * ours as their mean). The variance of a sum is estimated without bias from the samples:
 *
 *     bytes   V = sum of (1 - p) (s / p)^2      blocks   V = sum of (1 - p) / p^2
 *
 * Intervals of 95 %. y is the estimate, r what was recorded itself (certain), m = y - r the
 * estimate of what was missed, n the number of samples with p < 1, w = V / m the weight of one
 * sample, q = m / y the share that is missed. For blocks far below T: w = T, q = 1, m = y.
 *
 *     n >= 30, m^2 / V >= 15   y +- 1.96 sqrt(V), but not below r
 *     n > 0                    r + w G(.025; m^2/V) - w (1 - q)   and
 *                              r + V'/m' G(.975; m'^2/V'),  m' = m + u q, V' = V + u^2 q,
 *                              u = max(w, T); not below r and r + u
 *     n = 0                    r and r + 3 T, as exp(-3) = 5 %
 *
 * G(a; k) is quantile a of the gamma distribution of shape k. With q = 1 the second line is the
 * interval of Fay and Feuer (1997) and for equal weights the exact one of a Poisson number (Garwood
 * 1936): T chi2(.025; 2n) / 2 to T chi2(.975; 2n + 2) / 2. The terms with q make it right for
 * blocks that are hardly ever missed, of which too few are missed for a normal distribution however
 * many are recorded.
 *
 * Growth from one set of blocks to a later one: what is in both says nothing, only samples that are
 * in one of them count. Their two intervals are joined by square and add (Zou and Donner 2008),
 * which is D +- 1.96 sqrt(V1 + V2) where both are normal.
 *
 * Growth when only sums are known, those of what is live (L) and of what was ever freed (F) at both
 * moments: what was freed between them is F2 - F1, what was allocated A2 - A1 = L2 + F2 - L1 - F1.
 * The blocks that only the later moment has are among L2 and among those allocated, those that only
 * the earlier one has among L1 and among those freed; V(came) - V(went) = V(L2) - V(L1) always. So
 *
 *     V(came) + V(went) <= V(L2) - V(L1) + 2 min(V(L1), V(F2) - V(F1))
 *
 * which is exact when all that was live was replaced (L1 and L2 have no block in common), or when
 * no block both came and went between the moments. Else it is an upper bound, at most that of two
 * samples that have nothing in common.
 */

#include <stdbool.h>
#include <stdint.h>

#include "core/cc.h"

/* Same values as enum mt_state_regime_kind. */
enum mt_sampling_kind {
	MT_SAMPLING_ALL = 0,     /* every block is recorded */
	MT_SAMPLING_POISSON = 1, /* interval_bytes */
	MT_SAMPLING_EVERY = 2,   /* every */
};

/* How blocks are chosen. All-zero: every block. */
struct mt_sampling {
	enum mt_sampling_kind kind;
	uint64_t interval_bytes; /* T; at most 1: every block */
	uint64_t every;          /* N; at most 1: every block */
};

/* A sum over recorded blocks. All-zero: none, and none was left to chance. */
struct mt_estimate {
	uint64_t samples;    /* recorded by chance: p < 1 */
	uint64_t certain;    /* recorded with p = 1 */
	double bytes, count; /* of all blocks, by these */
	double seen_bytes;   /* of the recorded blocks themselves */
	double bytes_variance, count_variance;
	double unseen_bytes, unseen_count; /* what one more sample may stand for; 0: not known */
	/* samples are missing, so that there is no telling how much more the truth is; or their
	 * frees are, so that there is none how much less */
	bool is_least, is_most;
};

/* Sums over the samples of one site, or of several, at one moment. */
struct mt_flow {
	struct mt_estimate live;
	struct mt_estimate freed; /* ever; only grows */
};

/* 95 %. `high` is INFINITY when the samples give no bound. */
struct mt_interval {
	double low, high;
};

/* Whether any block is left to chance. */
bool mt_sampling_is_partial(const struct mt_sampling *s);
/* Blocks of this size and more are recorded with certainty: T ln 100, rounded up. */
uint64_t mt_sampling_certain_bytes(uint64_t interval_bytes);
/* The probability that a block of this size is recorded: above 0, at most 1. */
double mt_sampling_probability(const struct mt_sampling *s, uint64_t size);

/* Adds a recorded block. */
void mt_estimate_add(struct mt_estimate *e, const struct mt_sampling *s, uint64_t size);
/* Of blocks that are all known. */
struct mt_estimate mt_estimate_of_all(uint64_t count, uint64_t bytes);
/* Tells that blocks were looked for with this sampling, though maybe none was found. */
void mt_estimate_expect(struct mt_estimate *e, const struct mt_sampling *s);
/* Adds a sum over other blocks. */
void mt_estimate_merge(struct mt_estimate *e, const struct mt_estimate *other);

/* Sums that only grow: what the later one has more. Torn numbers give nothing below 0. */
struct mt_estimate mt_estimate_since(const struct mt_estimate *earlier,
				     const struct mt_estimate *later);

/* Whether no block was left to chance, and none is missing: then the figures are counts, not
 * estimates. */
bool mt_estimate_is_exact(const struct mt_estimate *e);
/* The interval of the bytes, and of the number of blocks. The latter cannot know of blocks so small
 * that none of them was sampled. Where samples are missing the high end is INFINITY, where their
 * frees are the low end is 0. */
struct mt_interval mt_estimate_bytes(const struct mt_estimate *e);
struct mt_interval mt_estimate_count(const struct mt_estimate *e);

/*
 * The interval of the growth from one set of blocks to a later one: `came` are the recorded blocks
 * that only the later one has, `went` those that only the earlier one has.
 */
struct mt_interval mt_estimate_growth_bytes(const struct mt_estimate *came,
					    const struct mt_estimate *went);
struct mt_interval mt_estimate_growth_count(const struct mt_estimate *came,
					    const struct mt_estimate *went);

/*
 * Sums for mt_estimate_growth_*() from one moment to a later one of the same blocks' samples, by
 * the bound above: their difference is that of the live blocks.
 */
void mt_flow_between(const struct mt_flow *earlier, const struct mt_flow *later,
		     struct mt_estimate *ret_came, struct mt_estimate *ret_went);

/* The regularized lower incomplete gamma function P(a, x), a > 0, x >= 0. */
double mt_gamma_p(double a, double x);
/*
 * The x where P(a, x) = q, for 0 < q < 1: half the chi-square quantile of 2a degrees of freedom.
 * Relative error below 1e-9, from a = 1e5 on below 1e-7; results below 1e-50 may be 0.
 */
double mt_gamma_quantile(double q, double a);

#endif
