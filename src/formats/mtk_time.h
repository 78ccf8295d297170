/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTK_TIME_H
#define MT_FORMATS_MTK_TIME_H

/* From the state file's coarse time units (32 low bits, time-stamp counter) to nanoseconds. */

#include <stdbool.h>

#include "core/cc.h"
#include "model/clock.h"
#include "wire/state.h"

struct mt_mtk_time {
	struct mt_profile_clock clock;
	bool estimated;   /* no usable pair of readings: a rate was assumed */
	bool damaged;     /* the file's pair or shift cannot be right and was not used */
	uint64_t mark_ns; /* time of the pair since start, 0: none */
};

/*
 * Takes the rate from the header's pair; when there is none, or one of the first second of a
 * process that ran twice as long, and `own_machine` says that the file was written since this
 * machine started, from the present; else it is assumed.
 */
void mt_mtk_time_init(struct mt_mtk_time *t, const struct mt_state_header *h, bool own_machine);

/* Whether the file's boot is this machine's present one, and its architecture ours. */
bool mt_mtk_time_is_own(const struct mt_state_header *h);

/* CLOCK_MONOTONIC now, ns. */
uint64_t mt_mtk_time_mono_ns(void);

/* Whether a moment lies behind an end, which people were told to the millisecond. */
MT_INLINE bool mt_mtk_time_is_behind(uint64_t ns, uint64_t end_ns)
{
	enum { SLACK_NS = 1000000 };

	return ns > end_ns && ns - end_ns > SLACK_NS;
}

#endif
