/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_TIMELINE_H
#define MT_REPORT_TIMELINE_H

/* Time lines: what snapshots of a process show, in every format. Private to report. */

#include "analysis/table.h"
#include "analysis/timeline.h"
#include "report/internal.h"

#define MT_JSON_SCHEMA_TIMELINE "memtrack-timeline-1"

/* One process of a report. */
struct mt_timeline_view {
	const struct mt_report *r;
	uint32_t number; /* of the profile */
	const struct mt_profile *p;
	const struct mt_series *s;
	struct mt_timeline *t;
	uint64_t *hash; /* callstack_hash by node */
	uint32_t shown; /* sites */
};

/* As mt_report_write() for MT_SHOW_TIMELINE. */
int mt_timeline_write(const struct mt_report *r, enum mt_report_format format, struct mt_buf *out,
		      struct mt_err *err);

int mt_timeline_text(const struct mt_timeline_view *v, struct mt_buf *out);
/* CSV: a table of the points. */
void mt_timeline_csv(const struct mt_timeline_view *v, bool with_header, struct mt_buf *out);
struct mt_json;
void mt_timeline_json(const struct mt_timeline_view *v, struct mt_json *j);

/* The row of a site, as other reports have it: identity only. */
struct mt_row mt_timeline_row(const struct mt_timeline_view *v, const struct mt_timeline_site *s);

#endif
