/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_TREND_H
#define MT_ANALYSIS_TREND_H

/*
 * Does a number grow over time? The slope is Theil and Sen's (the median of the slopes of all
 * pairs), its significance that of Mann and Kendall's test, corrected for values that hang together
 * in time. What rose and then stays, what rose in one step, and what comes back down again (a
 * sawtooth, a daily cycle) is told apart from what keeps growing. Pure functions.
 */

#include <stdbool.h>
#include <stdint.h>

enum mt_trend_verdict {
	MT_TREND_TOO_FEW,  /* not enough points to say anything */
	MT_TREND_STEADY,   /* no significant growth */
	MT_TREND_GROWS,    /* keeps growing */
	MT_TREND_LEVELLED, /* grew, and then stayed: a cache that filled */
	MT_TREND_STEPPED,  /* rose at one moment, and then stayed */
	MT_TREND_RETURNS,  /* rises, but comes back to where it was: a sawtooth, a cycle */
	MT_TREND_FALLS,
};

enum {
	MT_TREND_POINTS_MIN = 12, /* fewer are not enough data */
	MT_TREND_BINS = 128, /* more points are averaged to that many stretches of equal length */
};

/*
 * The z of the corrected test from which on growth counts as significant. A program may be asked
 * again and again while its series grows, so it is far beyond what a single test would take: of
 * 1000 steady noisy series that were looked at every two hours for two weeks it called none or one,
 * and 18 where each value keeps 0.9 of the one ten minutes before (tests/analysis/test_trend.c).
 */
#define MT_TREND_Z 4.0

struct mt_trend {
	enum mt_trend_verdict verdict;
	uint32_t points;          /* that were given */
	uint32_t grew, intervals; /* intervals between points, and in how many it grew */
	uint32_t first;           /* number of the point where the stretch begins that tells: 0, or
				     after a step or a rise that levelled off */
	/* of that stretch, in units a second */
	double slope, slope_low, slope_high; /* with its 95 % interval */
	double z;                            /* of the test; 0 for too few points */
	bool by_steps; /* z is of the sign test of the steps, which looks at growth with hardly any
			  way back: the interval of the slope, which is of the other test, may reach
			  0 then */
	double p;      /* one-sided: so likely is this z without growth */
};

/* Values over time, which never falls; points with the same time are allowed. */
struct mt_trend mt_trend_find(const uint64_t *time_ns, const uint64_t *value, uint32_t count);

/* "grows", "steady" ...; for machine formats. */
const char *mt_trend_word(enum mt_trend_verdict verdict);

#endif
