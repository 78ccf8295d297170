/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_TIMELINE_H
#define MT_ANALYSIS_TIMELINE_H

/*
 * From a series of snapshots to what grows: the process as a whole, and its call stacks, those that
 * look like leaks first. A leak goes on when the label or the mode changes: sites that differ only
 * in their label or in how their blocks were chosen are one. The profile of the same process gives
 * stacks, and the ages of blocks that were live when it was read. Pure functions.
 */

#include "analysis/trend.h"
#include "model/estimate.h"
#include "model/profile.h"
#include "model/series.h"

enum {
	MT_TIMELINE_GROWTH_MIN =
		4096,              /* bytes from the first to the last snapshot: less is noise */
	MT_TIMELINE_TESTED = 2000, /* sites that are tested, those that grew most */
};

struct mt_timeline_site {
	uint32_t site;   /* in profile and series: of several the one that grew most */
	uint32_t sites;  /* that are summed: t->next leads from it through them */
	uint32_t labels; /* different ones among them, "none" too */
	bool is_suspect; /* it keeps growing, and what it allocated is not freed */
	struct mt_trend trend;
	/* sums over its sites */
	uint64_t first_bytes, last_bytes; /* live; those that it had when it was not there yet: 0 */
	uint64_t first_count, last_count;
	uint64_t allocs, frees; /* between the first snapshot and the last */
	/*
	 * How sure that is: of what is live at last, and of what came and went since the first.
	 * knows_chance: some of its blocks were left to chance, and the snapshots tell the samples.
	 */
	bool knows_chance;
	struct mt_estimate last_live, came, went;
	/* of the blocks that were live when the profile was read */
	uint64_t block_bytes, old_bytes; /* all; those that lived in the first half of the series */
	uint64_t oldest_age_ns;          /* 0: none */
	double score;                    /* order of suspects: bytes a second, weighted */
};

struct mt_timeline {
	struct mt_trend live, rss; /* of the process; rss: too few where it is not known */
	uint64_t max_live_bytes, max_rss_bytes;
	struct mt_timeline_site *site; /* suspects first, then by growth; owned */
	uint32_t *next; /* by site of the profile: the next one that is summed with it, 0: none;
			   owned */
	uint32_t site_count, suspects;
	uint32_t untested; /* sites that grew, but less than those that were tested */
};

/*
 * profile: of the same process; its malloc heap is looked at. 0 with *ret_timeline, freed with
 * mt_timeline_free(), or -ENOMEM.
 */
int mt_timeline_build(const struct mt_series *series, const struct mt_profile *profile,
		      struct mt_timeline **ret_timeline);
/* NULL is allowed. */
void mt_timeline_free(struct mt_timeline *t);
MT_AUTO_DEFINE(mt_timeline, struct mt_timeline *, mt_timeline_free)

/* Live bytes of all its sites at a column of the series. */
uint64_t mt_timeline_bytes(const struct mt_timeline *t, const struct mt_series *series,
			   const struct mt_timeline_site *s, uint32_t column);

/*
 * The share of the blocks allocated between the snapshots that was not freed meanwhile, in per
 * mille; -1: nothing was allocated.
 */
int mt_timeline_kept(const struct mt_timeline_site *s);

#endif
