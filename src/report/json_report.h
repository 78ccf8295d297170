/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_JSON_REPORT_H
#define MT_REPORT_JSON_REPORT_H

/* JSON parts that the report and the comparison share. Private to report. */

#include "report/internal.h"
#include "report/json.h"

#define MT_JSON_SCHEMA_REPORT "memtrack-report-1"
#define MT_JSON_SCHEMA_DIFF "memtrack-diff-1"

/* A line of a call stack as an object of the open array; context: the struct mt_json. */
void mt_json_frame(void *context, const struct mt_stack_line *line);

/* The members that say which row it is: callstack_hash or the label, call, stack. */
void mt_json_row_identity(struct mt_json *j, const struct mt_report *r, enum mt_by by,
			  const struct mt_row *row);

#endif
