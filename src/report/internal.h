/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_INTERNAL_H
#define MT_REPORT_INTERNAL_H

/* What the formats share. Private to report. */

#include "report/report.h"

/* One line of a call stack as it is shown: a frame, or a function inlined into it. */
struct mt_stack_line {
	const char *function; /* NULL: not known */
	const char *file;     /* NULL: not known */
	uint32_t line;
	bool is_inlined;
	bool is_by_frame_pointer; /* found by the frame-pointer fallback: a guess */
	const char *place;        /* module+0xoffset */
	const char *module;       /* path; "" when the frame is in no known module */
	uint64_t offset; /* in the module's ELF addresses, or the address itself without a module */
	const char *build_id; /* hexadecimal, "" when not known */
};

/*
 * Calls emit for the lines of a row's call stack, innermost first, at most r->stack frames (their
 * inlined functions do not count). Returns the frames that were not shown.
 */
uint32_t mt_stack_each(const struct mt_report *r, const struct mt_row *row,
		       void (*emit)(void *context, const struct mt_stack_line *line),
		       void *context);
/* The same for the stack of a node of a profile. */
uint32_t mt_stack_each_at(const struct mt_report *r, const struct mt_profile *p, uint32_t node,
			  void (*emit)(void *context, const struct mt_stack_line *line),
			  void *context);
/* The label (phase, tag) of a site's row; "" when it has none. */
const char *mt_row_tag(const struct mt_report *r, const struct mt_row *row);
/* How the row's stack ended, enum mt_profile_stack_end. */
uint32_t mt_stack_end_of(const struct mt_report *r, const struct mt_row *row);

/* The table that r asks for, of one heap (MT_HEAP_ANY: all). As mt_table_build(), with *err. */
int mt_report_table(const struct mt_report *r, uint32_t heap, struct mt_table **ret_table,
		    struct mt_err *err);
/* The same; match_names: hashes by function names, for builds that differ (mt_query). */
int mt_report_table_of(const struct mt_report *r, uint32_t heap, bool match_names,
		       struct mt_table **ret_table, struct mt_err *err);
/* The measure of a table of rows (leaks to large, modules). */
enum mt_measure mt_show_measure(enum mt_show show);
/* The grouping in force: modules when that is what is shown. */
enum mt_by mt_report_by(const struct mt_report *r);
/* Heaps by name over all profiles: sums. Caller frees with free(); NULL: no memory. */
struct mt_heap_sum {
	const char *name; /* borrowed */
	uint32_t heap;    /* index; the same in all profiles for the first three */
	uint64_t allocs, frees, bytes, freed_bytes, live_count, live_bytes;
};
struct mt_heap_sum *mt_report_heaps(const struct mt_report *r, uint32_t *ret_count);

/*
 * Calls emit with each sentence a reader must know before trusting a number: data lost, tables
 * full, notes of the tracker, warnings of the reader.
 */
void mt_report_caveats(const struct mt_report *r, const struct mt_totals *t,
		       void (*emit)(void *context, const char *sentence), void *context);
/* Calls emit with the sentence of each note that some process has, warning or not. */
void mt_report_notes(const struct mt_report *r, void (*emit)(void *context, const char *sentence),
		     void *context);
/* A sentence for a show whose data was not recorded; NULL: there is data. */
const char *mt_report_missing(const struct mt_report *r);

int mt_report_text(const struct mt_report *r, struct mt_buf *out, struct mt_err *err);
int mt_report_json(const struct mt_report *r, struct mt_buf *out, struct mt_err *err);
int mt_report_csv(const struct mt_report *r, struct mt_buf *out, struct mt_err *err);
int mt_report_kv(const struct mt_report *r, struct mt_buf *out, struct mt_err *err);

/* Text: a line with the exact bytes behind the short size: "1.2 MiB (1,258,291 B)". */
void mt_text_size(struct mt_buf *out, uint64_t bytes);
/* Text: `text`, which may hold anything, escaped between two of our own. */
void mt_text_line(struct mt_buf *out, const char *before, const char *text, const char *after);
/* Text: the row's call stack, one line a frame, indented. */
void mt_text_stack(const struct mt_report *r, const struct mt_row *row, struct mt_buf *out);
/* Text: the stack of a node. */
void mt_text_stack_at(const struct mt_report *r, const struct mt_profile *p, uint32_t node,
		      struct mt_buf *out);
/* Escape sequences when r->color, else "". */
const char *mt_text_strong(const struct mt_report *r);
const char *mt_text_warn(const struct mt_report *r);
const char *mt_text_dim(const struct mt_report *r);
const char *mt_text_end(const struct mt_report *r);

/* CSV: one field, escaped, with quotes where they are needed; `last` ends the line. */
void mt_csv_field(struct mt_buf *out, const char *text, bool last);
void mt_csv_number(struct mt_buf *out, uint64_t number, bool last);
/* CSV: a line of a call stack, for a field of its own; context: the struct mt_buf. */
void mt_csv_stack_line(void *context, const struct mt_stack_line *line);
/* CSV: the call stack in one field, lines separated by ';'. */
void mt_csv_stack(const struct mt_report *r, const struct mt_row *row, struct mt_buf *out,
		  bool last);

#endif
