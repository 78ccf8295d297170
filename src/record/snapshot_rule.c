/* SPDX-License-Identifier: MIT */
/*
 * A rule fires once for what it is about: it is armed again only when that has clearly ended.
 */

#include "record/snapshot_rule.h"

#include "core/cc.h"
#include "target/memory.h"

#define LOOK_NS 1000000000ull /* how often RSS is looked at */
#define GROWTH_LOOK_MIN_NS 50000000ull

uint64_t mt_snapshot_rule_period(const struct mt_snapshot_rule *r)
{
	if (r->kind == MT_SNAPSHOT_GROWTH)
		return MT_MAX(r->time_ns / MT_SNAPSHOT_GROWTH_STEPS, GROWTH_LOOK_MIN_NS);
	return r->kind == MT_SNAPSHOT_PSS ? MT_SNAPSHOT_PSS_NS : LOOK_NS;
}

/* It comes above `bytes`, or below `rearm_bytes`. */
static bool is_new(struct mt_snapshot_rule_state *s, uint64_t value, uint64_t bytes,
		   uint64_t rearm_bytes)
{
	bool was_above = s->is_above;

	if (value > bytes)
		s->is_above = true;
	else if (value < rearm_bytes)
		s->is_above = false;
	return s->is_above && !was_above;
}

bool mt_snapshot_rule_crossed(const struct mt_snapshot_rule *r, struct mt_snapshot_rule_state *s,
			      uint64_t value)
{
	return value != MT_MEMORY_UNKNOWN && is_new(s, value, r->bytes, r->bytes - r->bytes / 16);
}

bool mt_snapshot_rule_growing(const struct mt_snapshot_rule *r, struct mt_snapshot_rule_state *s,
			      uint64_t now_ns, uint64_t live_bytes)
{
	uint64_t least = live_bytes;

	if (live_bytes == MT_MEMORY_UNKNOWN)
		return false;
	for (uint32_t i = 0; i < s->steps; i++)
		if (now_ns - s->step[i].time_ns <= r->time_ns)
			least = MT_MIN(least, s->step[i].bytes);
	s->step[s->at].time_ns = now_ns;
	s->step[s->at].bytes = live_bytes;
	s->at = (s->at + 1) % MT_ARRAY_LEN(s->step);
	s->steps = MT_MIN(s->steps + 1, (uint32_t)MT_ARRAY_LEN(s->step));
	/* half, rounded up: with growth>0 it ends when there was none */
	return is_new(s, live_bytes - least, r->bytes, r->bytes / 2 + 1);
}
