/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTR_ACTIVITY_H
#define MT_FORMATS_MTR_ACTIVITY_H

/* What each thread did in each part of a recording's time, as CSV. */

#include "base/buf.h"
#include "formats/mtr_read.h"
#include "model/profile.h"

/*
 * Appends a header line and then a line for each thread that did something in a step of step_ns
 * (0: a hundredth of the run): begin of the step, thread, its allocations and frees with their
 * bytes, and bytes that were live in the process when the step ended. p is of the state file that
 * belongs to the recording. 0 or -ENOMEM.
 */
int mt_mtr_activity_write(const struct mt_mtr *m, struct mt_profile *p, uint64_t step_ns,
			  struct mt_buf *out);

#endif
