/* SPDX-License-Identifier: MIT */
#ifndef MT_MODEL_CLOCK_H
#define MT_MODEL_CLOCK_H

/* A process's coarse time: units of its own, of which only 32 low bits are kept with each event. */

#include <stdint.h>

/* All-zero but for tick_delta is valid: every time is then 0. */
struct mt_profile_clock {
	uint64_t mono_delta_ns, tick_delta; /* the rate; tick_delta is never 0 */
	uint64_t now_unit;                  /* the newest time that is known in full */
	uint32_t unit_shift;                /* a unit is 2^unit_shift ticks */
	uint64_t last_unit, last_ns;        /* the conversion done last */
};

/* Units since start to nanoseconds; the largest value where it does not fit. */
uint64_t mt_profile_clock_ns(struct mt_profile_clock *c, uint64_t unit);

/*
 * The full count of units of which `low` are the low 32 bits: the last such moment that is not more
 * than MT_PROFILE_AHEAD_UNITS later than now_unit (other threads may be ahead of it).
 */
uint64_t mt_profile_clock_expand(const struct mt_profile_clock *c, uint32_t low);
enum { MT_PROFILE_AHEAD_UNITS = 1 << 20 };

/* Both: nanoseconds since start of a moment of which the low 32 bits were kept. */
uint64_t mt_profile_clock_at(struct mt_profile_clock *c, uint32_t low);

#endif
