/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_SNAPSHOT_RULE_H
#define MT_RECORD_SNAPSHOT_RULE_H

/* When a rule of --snapshot-on fires, given what was read of a process. */

#include <stdbool.h>
#include <stdint.h>

#include "record/snapshot.h"

enum { MT_SNAPSHOT_GROWTH_STEPS = 32 };
#define MT_SNAPSHOT_PSS_NS 10000000000ull /* reading PSS costs the process something */

/* What a rule remembers of a process. All-zero: nothing was seen yet. */
struct mt_snapshot_rule_state {
	bool is_above; /* it fired, and what it fired for has not ended since */
	uint64_t next_ns;
	/* growth: live bytes at the last steps, in a ring */
	struct {
		uint64_t time_ns, bytes;
	} step[MT_SNAPSHOT_GROWTH_STEPS + 1];
	uint32_t steps, at;
};

/* How often it is looked at. */
uint64_t mt_snapshot_rule_period(const struct mt_snapshot_rule *r);

/*
 * Whether it fires now: when the value comes above the limit, and again only after it was below
 * 15/16 of it. MT_MEMORY_UNKNOWN changes nothing.
 */
bool mt_snapshot_rule_crossed(const struct mt_snapshot_rule *r, struct mt_snapshot_rule_state *s,
			      uint64_t value);

/*
 * Whether it fires now: when there are more live bytes than at some step within its time, by more
 * than its bytes. Again only after that growth has ended: that within the time there was less than
 * half of it. MT_MEMORY_UNKNOWN changes nothing, and is no step.
 */
bool mt_snapshot_rule_growing(const struct mt_snapshot_rule *r, struct mt_snapshot_rule_state *s,
			      uint64_t now_ns, uint64_t live_bytes);

#endif
