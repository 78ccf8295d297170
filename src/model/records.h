/* SPDX-License-Identifier: MIT */
#ifndef MT_MODEL_RECORDS_H
#define MT_MODEL_RECORDS_H

/* Live blocks of the malloc heap summed by call site and size: what heap dumps are made of. */

#include "base/cleanup.h"
#include "model/profile.h"

struct mt_record {
	uint64_t size, count;
	uint32_t site; /* 0: not known */
};

/* All-zero is valid and empty. */
struct mt_records {
	struct mt_record *record; /* owned; by site, then by size, descending; each pair once */
	size_t count;
	bool is_estimate; /* some counts are of samples, weighed by how these were chosen */
};

/* NULL is allowed. */
void mt_records_done(struct mt_records *r);
MT_AUTO_DEFINE_INPLACE(mt_records, struct mt_records, mt_records_done)

/*
 * Sums p's blocks and groups. Of a snapshot of a series, which has no blocks, a site's blocks are
 * taken to be of equal size; sizes are then rounded so that bytes stay right. 0 or -ENOMEM.
 */
int mt_records_make(const struct mt_profile *p, struct mt_records *ret_records);

#endif
