/* SPDX-License-Identifier: MIT */
/*
 * Units to nanoseconds. Events of one time follow each other, so the last answer is mostly the next
 * one too.
 */
#include "model/clock.h"

#include "core/cc.h"

static uint64_t convert(const struct mt_profile_clock *c, uint64_t unit)
{
	unsigned __int128 ticks = (unsigned __int128)unit << c->unit_shift;
	uint64_t product;
	if (ticks > UINT64_MAX)
		ticks = UINT64_MAX;
	if (MT_LIKELY(!__builtin_mul_overflow((uint64_t)ticks, c->mono_delta_ns, &product)))
		return product / c->tick_delta; /* much faster than the division below */
	unsigned __int128 ns = ticks * c->mono_delta_ns / c->tick_delta;
	return ns > UINT64_MAX ? UINT64_MAX : (uint64_t)ns;
}

uint64_t mt_profile_clock_ns(struct mt_profile_clock *c, uint64_t unit)
{
	if (unit != c->last_unit) {
		c->last_unit = unit;
		c->last_ns = convert(c, unit);
	}
	return c->last_ns;
}

uint64_t mt_profile_clock_expand(const struct mt_profile_clock *c, uint32_t low)
{
	uint32_t ahead = low - (uint32_t)c->now_unit;
	if (ahead <= MT_PROFILE_AHEAD_UNITS && c->now_unit <= UINT64_MAX - ahead)
		return c->now_unit + ahead;
	uint32_t behind = (uint32_t)c->now_unit - low;
	return c->now_unit > behind ? c->now_unit - behind : 0;
}

uint64_t mt_profile_clock_at(struct mt_profile_clock *c, uint32_t low)
{
	return mt_profile_clock_ns(c, mt_profile_clock_expand(c, low));
}
