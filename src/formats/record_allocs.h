/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_RECORD_ALLOCS_H
#define MT_FORMATS_RECORD_ALLOCS_H

/* A recording as the text that Android's malloc debug option record_allocs writes. */

#include "base/buf.h"
#include "formats/mtr_read.h"
#include "model/profile.h"

/*
 * Appends one line a call (an out.drain keeps that small). Addresses are made up, each used once,
 * and aligned as was asked for: a recording has none. Times are coarse, nanoseconds since the
 * program's start. p is of the state file that belongs to the recording. 0 or -ENOMEM.
 */
int mt_record_allocs_write(const struct mt_mtr *m, struct mt_profile *p, struct mt_buf *out);

#endif
