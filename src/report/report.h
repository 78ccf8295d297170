/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_REPORT_H
#define MT_REPORT_REPORT_H

/*
 * Reports over the profiles of one run, in every format that people and programs read. All formats
 * show the numbers of the same analysis tables. Nothing here prints: text goes into a buffer.
 * Deterministic: same profiles and options, same bytes. docs/report-json.md describes the machine
 * formats.
 */

#include "analysis/table.h"
#include "base/buf.h"
#include "base/err.h"

struct mt_profile_error;
struct mt_series;

enum mt_show {
	MT_SHOW_LEAKS,
	MT_SHOW_LIVE,
	MT_SHOW_PEAK,
	MT_SHOW_TOTAL,
	MT_SHOW_TEMPORARY,
	MT_SHOW_LARGE,
	MT_SHOW_SIZES,
	MT_SHOW_LIFETIMES,
	MT_SHOW_THREADS,
	MT_SHOW_MODULES,
	MT_SHOW_HEAPS,
	MT_SHOW_COVERAGE,
	MT_SHOW_ERRORS,
	MT_SHOW_TIMELINE,
	MT_SHOW_SUMMARY,
};
enum { MT_SHOW_COUNT = MT_SHOW_SUMMARY }; /* those that --show takes; SUMMARY is `run`'s own */

/* How lines of values over time are drawn. */
enum mt_spark { MT_SPARK_NONE, MT_SPARK_ASCII, MT_SPARK_UTF8 };

enum mt_report_format { MT_REPORT_TEXT, MT_REPORT_JSON, MT_REPORT_CSV, MT_REPORT_KV };

enum {
	MT_REPORT_TOP_DEFAULT = 20,
	MT_REPORT_STACK_DEFAULT = 16, /* frames under a row in text */
	MT_REPORT_STACK_MAX = 256,
	MT_REPORT_THRESHOLD_DEFAULT = 4096,
};

struct mt_report {
	const struct mt_profile *const *profiles; /* borrowed */
	uint32_t profile_count;
	enum mt_show show;
	enum mt_by by;
	enum mt_sort sort;
	uint32_t top;                  /* rows shown; 0: all */
	uint32_t stack;                /* frames of each call stack shown, 0: none */
	const char *modules;           /* patterns as in mt_filter_module(); NULL: all */
	uint64_t min_age_ns;           /* younger live blocks do not count */
	uint64_t leak_threshold_bytes; /* leak sites below it are summed in one line */
	bool color;                    /* text: escape sequences of a terminal */
	const struct mt_names *names;  /* NULL: module+0xoffset */
	bool (*is_suppressed)(void *context, const struct mt_profile *p, uint32_t site);
	/* the same of an error; both get suppress_context. NULL: none is left out */
	bool (*is_error_suppressed)(void *context, const struct mt_profile *p,
				    const struct mt_profile_error *e);
	void *suppress_context;
	/* comparisons: the other side's profiles; set by mt_report_write_diff() */
	const struct mt_profile *const *other;
	uint32_t other_count;
	/* time lines: one series a profile, NULL where there is none; NULL: for none. Borrowed */
	const struct mt_series *const *series;
	enum mt_spark spark;      /* time lines in text: NONE gives a table */
	const volatile int *stop; /* becomes not 0: end early with a partial report; NULL: never */
};

/*
 * Appends the report to out. 0, -ENOMEM, or -EINVAL with a sentence when what was asked for does
 * not go together or was not recorded.
 */
int mt_report_write(const struct mt_report *r, enum mt_report_format format, struct mt_buf *out,
		    struct mt_err *err);

/* What is live and not suppressed, malloc heap: for exit codes and summaries. 0 or -ENOMEM. */
struct mt_report_leaks {
	uint64_t sites, count, bytes;
	uint64_t wide_sites; /* with at least leak_threshold_bytes */
};
int mt_report_count_leaks(const struct mt_report *r, struct mt_report_leaks *ret_leaks);

/* Memory errors that were found and are not suppressed, those without room in the table too. */
uint64_t mt_report_count_errors(const struct mt_report *r);

/* Growth from the old profiles to r's; r->show is one of the tables (leaks to large). As above. */
int mt_report_write_diff(const struct mt_report *r, const struct mt_profile *const *old_profiles,
			 uint32_t old_count, enum mt_report_format format, struct mt_buf *out,
			 struct mt_err *err);

/* Words of the command line; NULL beyond the last. */
const char *mt_show_name(enum mt_show show);
const char *mt_by_name(enum mt_by by);
const char *mt_sort_name(enum mt_sort sort);

/* Whether a show is a table of rows (leaks to large, modules), which can be grouped. */
bool mt_show_is_table(enum mt_show show);

#endif
