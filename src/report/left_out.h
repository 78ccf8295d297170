/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_LEFT_OUT_H
#define MT_REPORT_LEFT_OUT_H

/*
 * What keeps samples out of call sites because it was asked for: ranges of sizes, filters of
 * modules, memory below which nothing is sampled. Private to report.
 */

#include "report/internal.h"
#include "report/json.h"

/* A sentence for each that acted in a process. */
void mt_left_out_sentences(const struct mt_report *r,
			   void (*emit)(void *context, const char *sentence), void *context);
/* JSON: the member "filters", the same as objects. */
void mt_left_out_json(struct mt_json *j, const struct mt_report *r);

#endif
