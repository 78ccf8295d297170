/* SPDX-License-Identifier: MIT */
#ifndef MT_MODEL_SERIES_H
#define MT_MODEL_SERIES_H

/*
 * A series of snapshots of one process in memory: totals at every point, and the live bytes of each
 * site at so many of them as fit. Nothing here knows the file format.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/cleanup.h"
#include "core/cc.h"
#include "model/estimate.h"

#define MT_SERIES_UNKNOWN UINT64_MAX

/* Why a snapshot was taken; same values as in the file. */
enum mt_series_reason {
	MT_SERIES_FIRST = 1,
	MT_SERIES_INTERVAL = 2,
	MT_SERIES_LAST = 3,
	MT_SERIES_ASKED = 4,
	MT_SERIES_SIGNAL = 5,
	MT_SERIES_RSS = 6,
	MT_SERIES_PSS = 7,
	MT_SERIES_GROWTH = 8,
	MT_SERIES_PROGRAM = 9,
};

struct mt_series_point {
	uint32_t number; /* from 1; rising, with gaps where points were taken out */
	uint32_t reason;
	bool is_usable;   /* totals are in usable bytes */
	bool is_counted;  /* taken in statistics mode: of sites only what came before it is known */
	uint64_t time_ns; /* since the start of tracking */
	uint64_t wall_ns;
	uint64_t live_bytes, live_count, allocs, frees, alloc_bytes, freed_bytes; /* malloc heap */
	uint64_t rss_bytes, pss_bytes, anon_bytes, swap_bytes; /* or MT_SERIES_UNKNOWN */
};

/* Values of one site at one point; estimates where it is sampled. */
struct mt_series_site {
	uint64_t bytes, count; /* live */
	uint64_t allocs, frees;
};

/* Sums over samples of one site, beside those that mt_series_site has. */
struct mt_series_part {
	uint64_t samples;    /* recorded blocks; those that were certain are among them */
	uint64_t seen_bytes; /* of the recorded blocks themselves */
	double bytes_variance, count_variance;
};

/* What a sampled site has beside that; all-zero: nothing was sampled. */
struct mt_series_sampled {
	struct mt_series_part live, freed; /* freed: ever */
	uint64_t freed_bytes;
	/* how exactly variances are stored: in 2^unit; the writer of a series chooses them */
	uint8_t bytes_unit, count_unit;
};

struct mt_series {
	uint64_t wall_start_ns;
	uint64_t lost, thinned; /* snapshots that were not stored; that were taken out */
	uint64_t damaged_bytes; /* at the end of the file, not readable */
	uint32_t point_count;
	struct mt_series_point *point;
	/*
	 * Points from the first on that tell how the process lived: at its end it may free what it
	 * held all the time, so the point of the end is not among them where there are others.
	 */
	uint32_t judged_count;
	uint32_t site_count; /* sites 0 .. site_count - 1 have values; element 0 is unused */
	struct mt_series_site *first, *last; /* by site, at the first and the last judged point */
	/* the same; NULL: nothing was sampled, or it is not known of one of them */
	struct mt_series_sampled *first_sampled, *last_sampled;
	/* live bytes of the sites at column_count of the judged points */
	uint32_t column_count;
	uint32_t *column; /* number of the point, rising; the first and the last are among them */
	uint64_t *bytes;  /* bytes[site * column_count + column] */
	struct mt_arena *arena; /* owns all of the above */
};

/* NULL is allowed. */
void mt_series_free(struct mt_series *s);
MT_AUTO_DEFINE(mt_series, struct mt_series *, mt_series_free)

/*
 * Chooses which of `count` points to keep (keep[i]) so that the sizes of those kept make at most
 * target_bytes, if that can be: the rule of docs/formats/mts.md, Thinning. Returns the bytes of
 * those kept.
 */
uint64_t mt_series_thin(const struct mt_series_point *point, const uint32_t *size_bytes,
			uint32_t count, uint64_t target_bytes, bool *keep);

/* The sums of a site that is sampled so. */
struct mt_flow mt_series_flow(const struct mt_series_site *site,
			      const struct mt_series_sampled *sampled,
			      const struct mt_sampling *how);

/* A reason in words: "interval", "RSS above a size"; "?" for unknown ones. */
const char *mt_series_reason_name(uint32_t reason);

#endif
