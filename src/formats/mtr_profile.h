/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTR_PROFILE_H
#define MT_FORMATS_MTR_PROFILE_H

/* The profile as it was at some moment of a recording: every number of the malloc heap, exact. */

#include "base/err.h"
#include "formats/mtr_read.h"
#include "model/profile.h"

enum mt_mtr_when_kind {
	MT_MTR_AT_END,
	MT_MTR_AT_PEAK, /* when most bytes were live; the first such moment */
	MT_MTR_AT_TIME, /* after the last event up to ns */
};

struct mt_mtr_when {
	enum mt_mtr_when_kind kind;
	uint64_t ns; /* since start */
};

/*
 * Sets p, read from the state file that belongs to the recording, back to that moment. What the
 * recording does not tell (mappings, custom heaps, blocks without a call stack) is left out, but
 * at the end; profile.warning says so, and what is missing. 0; -EINVAL when they do not belong
 * together; -ERANGE for a time behind the end; -ENOMEM; with *err.
 */
int mt_mtr_to_profile(const struct mt_mtr *m, struct mt_profile *p, const struct mt_mtr_when *when,
		      struct mt_err *err);

/* Adds a warning for each thing that the recording lacks. `whole`: as read to the end. */
struct mt_mtr_losses;
void mt_mtr_warn(const struct mt_mtr *m, struct mt_profile *p, const struct mt_mtr_losses *whole);

/*
 * For a report on the state file alone: adds a warning when events of the recording were dropped or
 * its size limit was reached; reads it to its end only then. 0 or -ENOMEM.
 */
int mt_mtr_warn_beside(const struct mt_mtr *m, struct mt_profile *p);

/* Whether both are of the same process and program. */
bool mt_mtr_belongs_to(const struct mt_mtr *m, const struct mt_profile *p);

#endif
