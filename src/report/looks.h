/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_LOOKS_H
#define MT_REPORT_LOOKS_H

/*
 * What looks at processes' memory found: which live blocks can still be reached, and which are
 * lost. Private to report.
 */

#include "report/internal.h"
#include "report/json.h"

/* Text, behind the totals of what is live: sums, or why they are not known. */
void mt_looks_text_totals(const struct mt_report *r, const struct mt_totals *t, struct mt_buf *out);

/* Text, in the verdict: "; 1.0 KiB of it is lost", or nothing. */
void mt_looks_text_verdict(const struct mt_table *t, struct mt_buf *out);

/* Text, behind a row's figures: ", all lost"; nothing where nobody looked. */
void mt_looks_text_row(const struct mt_table *t, const struct mt_row *row, struct mt_buf *out);

/* JSON: members of the report, of a process and of a row. */
void mt_looks_json_totals(struct mt_json *j, const struct mt_totals *t);
void mt_looks_json_process(struct mt_json *j, const struct mt_profile *p);
void mt_looks_json_row(struct mt_json *j, const struct mt_table *t, const struct mt_row *row);

#endif
