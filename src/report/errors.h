/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_ERRORS_H
#define MT_REPORT_ERRORS_H

/* Wrong uses of guarded and checked blocks, in each format. Private to report. */

#include "report/error_list.h"
#include "report/json.h"

/* Whether some process had a pool of guarded blocks or checked its blocks. */
bool mt_errors_were_looked_for(const struct mt_report *r);
/* Whether some process checked its blocks. */
bool mt_errors_is_check(const struct mt_report *r);

/* All groups with their call stacks, at most r->top. 0 or -ENOMEM. */
int mt_errors_text(const struct mt_report *r, struct mt_buf *out);
/*
 * In front of a report of leaks; nothing when there are no errors. A summary has the counts alone,
 * check mode a line for each of the first groups, guarded samples everything. 0 or -ENOMEM.
 */
int mt_errors_text_first(const struct mt_report *r, struct mt_buf *out);
/* A line on the pool among the totals; nothing when there is none. */
void mt_errors_text_pool(const struct mt_report *r, struct mt_buf *out);

/*
 * "leak report unreliable: 2 corruption errors at ...", when memory was overwritten; else nothing.
 */
void mt_errors_unreliable(const struct mt_report *r, const struct mt_error_list *l,
			  struct mt_buf *out);

/* Member "errors". 0 or -ENOMEM. */
int mt_errors_json(const struct mt_report *r, struct mt_json *j);
/* Members "guard" and "check": what was looked for and how much was found. 0 or -ENOMEM. */
int mt_errors_json_pool(const struct mt_report *r, struct mt_json *j);

/* 0 or -ENOMEM. */
int mt_errors_kv(const struct mt_report *r, struct mt_buf *out);
int mt_errors_csv(const struct mt_report *r, struct mt_buf *out);

#endif
