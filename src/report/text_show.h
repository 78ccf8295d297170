/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_TEXT_SHOW_H
#define MT_REPORT_TEXT_SHOW_H

/* The shows that are not tables of rows: sizes, lifetimes, threads, heaps, coverage. Private. */

#include "report/report.h"

/* Appends r->show as text. 0 or a negative errno value with *err. */
int mt_text_show(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out,
		 struct mt_err *err);

/* Lower and upper bound of a size bucket in bytes (the last has no upper bound: UINT64_MAX). */
void mt_show_size_range(uint32_t bucket, uint64_t *ret_lo, uint64_t *ret_hi);
/* The same for a lifetime bucket, in nanoseconds. */
void mt_show_life_range(uint32_t bucket, uint64_t unit_ns, uint64_t *ret_lo, uint64_t *ret_hi);
/* Live blocks and bytes of the malloc heap by size bucket. */
struct mt_size_live {
	uint64_t count[MT_HIST_BUCKETS], bytes[MT_HIST_BUCKETS];
};
void mt_show_size_live(const struct mt_report *r, struct mt_size_live *ret_live);

/* A thread's count per hour, from its first allocation on until the report. */
struct mt_profile_thread;
uint64_t mt_show_per_hour(const struct mt_profile *p, const struct mt_profile_thread *th,
			  uint64_t count);

#endif
