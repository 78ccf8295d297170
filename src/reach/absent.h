/* SPDX-License-Identifier: MIT */
#ifndef MT_REACH_ABSENT_H
#define MT_REACH_ABSENT_H

/* Reserved memory that was never touched: programs reserve far more than a machine has. */

#include "reach/range.h"
#include "target/image.h"

/*
 * Stretches of large private mappings and of shared memory that have no pages, and mappings that
 * are too large to be looked at; the image is of no core file. What cannot be known counts as
 * present. Mappings in `own` (tidy) are of no interest. *ret_left_out_bytes: of the too large ones.
 * 0 or -ENOMEM. Tidy.
 */
int mt_absent_find(const struct mt_image *im, const struct mt_ranges *own,
		   struct mt_ranges *ret_absent, uint64_t *ret_left_out_bytes);

#endif
