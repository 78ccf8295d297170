/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_TEXT_SAMPLED_H
#define MT_REPORT_TEXT_SAMPLED_H

/* Text for figures that are estimates, and for runs that have counts only. Private to report. */

#include "report/internal.h"

enum { MT_BIG_REGION = 13 }; /* the state file's number of the list of big blocks */

/* " (95 %: 178 KiB to 320 KiB)", of the bytes, or that samples are missing. */
void mt_text_range(struct mt_buf *out, const struct mt_estimate *e);

/* "at least ", "at most " or "": what an estimate is from which samples or frees are missing. */
const char *mt_text_bound(const struct mt_estimate *e);

/* The first line of a row with an estimate, up to its number of blocks. */
void mt_text_estimated_row(const struct mt_report *r, const struct mt_table *t,
			   const struct mt_row *row, const char *noun, struct mt_buf *out);

/* A verdict when no sample is live, or none that found room. */
void mt_text_no_sample(const struct mt_report *r, bool lacks_samples, struct mt_buf *out);

/* The list of big blocks of the statistics. 0 or -ENOMEM. */
int mt_text_large(const struct mt_report *r, uint32_t top, struct mt_buf *out);

/* Size classes, threads and big blocks of a run that was only counted. 0 or an error with *err. */
int mt_text_counted(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out,
		    struct mt_err *err);

#endif
