/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_TIME_H
#define MT_FORMATS_MTK_TIME_H

/* From the state file's coarse time units (32 low bits, time-stamp counter) to nanoseconds. */

#include <stdbool.h>

#include "core/cc.h"
#include "wire/state.h"

struct mt_mtk_time {
	uint64_t mono_delta_ns, tick_delta; /* the rate; tick_delta is never 0 */
	uint64_t now_unit;
	uint32_t unit_shift;
	bool estimated;              /* no usable pair of readings: a rate was assumed */
	bool damaged;                /* the file's pair or shift cannot be right and was not used */
	uint64_t mark_ns;            /* time of the pair since start, 0: none */
	uint64_t last_unit, last_ns; /* the conversion done last */
};

/*
 * Takes the rate from the header's pair; else, when `own_machine` says that the file was written
 * since this machine started, from its own clocks; else it is assumed.
 */
void mt_mtk_time_init(struct mt_mtk_time *t, const struct mt_state_header *h, bool own_machine);

/* Units since start to nanoseconds; the largest value where it does not fit. */
uint64_t mt_mtk_time_ns(struct mt_mtk_time *t, uint64_t unit);

/*
 * The full count of units of which `low` are the low 32 bits: the last such moment that is not more
 * than MT_MTK_AHEAD_UNITS later than the newest time of the header (other threads may be ahead of
 * it).
 */
uint64_t mt_mtk_time_expand(const struct mt_mtk_time *t, uint32_t low);
enum { MT_MTK_AHEAD_UNITS = 1 << 20 };

/* Whether the file's boot is this machine's present one, and its architecture ours. */
bool mt_mtk_time_is_own(const struct mt_state_header *h);

/* CLOCK_MONOTONIC now, ns. */
uint64_t mt_mtk_time_mono_ns(void);

#endif
