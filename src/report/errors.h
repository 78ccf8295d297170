/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_ERRORS_H
#define MT_REPORT_ERRORS_H

/* Wrong uses of guarded blocks, in each format. Private to report. */

#include "report/internal.h"
#include "report/json.h"

/* Whether some process had a pool of guarded blocks, or asked for one. */
bool mt_errors_were_looked_for(const struct mt_report *r);
uint64_t mt_errors_count(const struct mt_report *r);

/* All errors with their call stacks, at most r->top. */
void mt_errors_text(const struct mt_report *r, struct mt_buf *out);
/* The same in front of another report; nothing when there are none. A summary has one line. */
void mt_errors_text_first(const struct mt_report *r, struct mt_buf *out);
/* A line on the pool among the totals; nothing when there is none. */
void mt_errors_text_pool(const struct mt_report *r, struct mt_buf *out);

/* Member "errors", and member "guard" (nothing when there is no pool). */
void mt_errors_json(const struct mt_report *r, struct mt_json *j);
void mt_errors_json_pool(const struct mt_report *r, struct mt_json *j);

void mt_errors_kv(const struct mt_report *r, struct mt_buf *out);

#endif
