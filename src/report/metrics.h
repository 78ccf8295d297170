/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_METRICS_H
#define MT_REPORT_METRICS_H

/*
 * Readings of processes as text that Prometheus collects. docs/metrics.md describes the metrics.
 * Deterministic: the same readings give the same text.
 */

#include "base/buf.h"
#include "model/watch.h"

/* A site that is shown by name: one of the few with the most live bytes. */
struct mt_metrics_site {
	uint32_t number; /* in watch->site */
	/* strings are borrowed and never NULL */
	const char *function; /* innermost function of the program, or module+0xoffset */
	const char *place;    /* "file:line", "" when not known */
	const char *caller;   /* of that function; "" when not known */
	const char *call;     /* "malloc" ... */
	uint64_t callstack_hash;
};

struct mt_metrics_process {
	const struct mt_watch *watch;
	const char *program;
	const struct mt_metrics_site *site;
	uint32_t site_count;
};

struct mt_metrics {
	const struct mt_metrics_process *process; /* no two of the same pid */
	size_t count;
	uint64_t left_out;   /* processes beyond the bound */
	uint64_t unreadable; /* state files that could not be read */
	uint64_t reading_ns; /* time that reading took */
	const char *version;
};

enum mt_metrics_format {
	MT_METRICS_OPENMETRICS = 0, /* OpenMetrics 1.0 */
	MT_METRICS_PROMETHEUS = 1,  /* the older text format, 0.0.4; textfile collectors want it */
};

/* The HTTP content type of a format. */
const char *mt_metrics_content_type(enum mt_metrics_format format);

/* Appends the text; 0 or -ENOMEM. */
int mt_metrics_write(const struct mt_metrics *m, enum mt_metrics_format format, struct mt_buf *out);

/* Appends text as a label's value stands between its quotes. */
void mt_metrics_escape(struct mt_buf *out, const char *text);

#endif
