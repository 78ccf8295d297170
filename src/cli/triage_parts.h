/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_TRIAGE_PARTS_H
#define MT_CLI_TRIAGE_PARTS_H

/* Steps of a triage, each into its part of the facts. Private to triage. */

#include "base/cleanup.h"
#include "cli/triage.h"

/*
 * The allocator, and if the heap grows and is not too large to be searched twice, which of its
 * blocks can be reached, as the earlier moment. The process stands still while a copy is made.
 * state: of mt_triage_tracked_path(). 0 or -ENOMEM.
 */
int mt_triage_look_before(const struct mt_triage_watch *w, const char *state,
			  struct mt_triage_facts *f);
/* The allocator, and which of its blocks can be reached. 0 or -ENOMEM. */
int mt_triage_look_inside(const struct mt_triage_watch *w, const char *state,
			  struct mt_triage_facts *f);

/* What the tracker knows at the beginning; *ret NULL: the process is not tracked. 0 or -ENOMEM. */
struct mt_triage_tracked;
/* Its state file; NULL: the process is not tracked. Borrowed. */
const char *mt_triage_tracked_path(const struct mt_triage_tracked *t);
int mt_triage_tracked_open(const struct mt_triage_watch *w, struct mt_triage_facts *f,
			   struct mt_triage_tracked **ret);
/* What changed since. t may be NULL. 0 or -ENOMEM. */
int mt_triage_tracked_end(struct mt_triage_tracked *t, const struct mt_triage_watch *w,
			  struct mt_triage_facts *f);
void mt_triage_tracked_free(struct mt_triage_tracked *t); /* NULL is fine */
MT_AUTO_DEFINE(mt_triage_tracked, struct mt_triage_tracked *, mt_triage_tracked_free)

/* What the kernel limits, at the first and the last reading. */
void mt_triage_read_limits(struct mt_triage_facts *f, bool is_first);

#endif
