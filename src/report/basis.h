/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_BASIS_H
#define MT_REPORT_BASIS_H

/*
 * What figures rest on: samples with their intervals, exact statistics, changes of the recording.
 * Private to report.
 */

#include "report/internal.h"
#include "report/json.h"

/* Calls emit with each sentence on how the figures came about; none for a run in full mode. */
void mt_basis_sentences(const struct mt_report *r, const struct mt_totals *t,
			void (*emit)(void *context, const char *sentence), void *context);

/*
 * Events inside of others that are said there, as an information: the few that an allocator which
 * is not the C library's makes when it starts.
 */
uint64_t mt_basis_nested(const struct mt_report *r);

/* Whether the malloc heap was only counted: there is no call site, but statistics. */
bool mt_basis_is_counted_only(const struct mt_report *r);

/* The sentence for a table that would need call stacks then, with what is live. */
void mt_basis_add_counted_verdict(const struct mt_totals *t, struct mt_buf *out);

/* What is live by the counters, and whether the rows of a table are about the same blocks. */
uint64_t mt_basis_live(const struct mt_report *r);
bool mt_basis_knows_live(const struct mt_report *r, const struct mt_table *t);

/*
 * The live bytes that the counters have beside the call sites: of what was allocated in statistics
 * mode no site is known. 0 where chance alone may explain it.
 */
uint64_t mt_basis_counted_more(const struct mt_report *r, const struct mt_table *t);

/* Whether the row's figures are estimates: some block was left to chance. */
bool mt_is_estimate(const struct mt_estimate *e);

/* "178 KiB to 320 KiB", "at least 3 B": the ends of a 95 % interval, sizes or (is_count) blocks. */
void mt_text_interval(struct mt_buf *out, struct mt_interval i, bool is_count);
/* The same of a growth, with signs. */
void mt_text_growth(struct mt_buf *out, struct mt_interval i);

/* Ends of an interval as whole numbers, away from its middle. *ret_high UINT64_MAX: no bound. */
void mt_interval_whole(struct mt_interval i, uint64_t *ret_low, uint64_t *ret_high);

/* JSON: member "estimate" of a row; nothing for NULL. */
void mt_json_estimate(struct mt_json *j, const struct mt_estimate *e);
/* JSON: members "growth_bytes" and "growth_count" of a comparison's row or sum. */
void mt_json_growth(struct mt_json *j, struct mt_interval bytes, struct mt_interval count);
/* JSON: members "notes", "sampling" and "changes"; nothing for a run in full mode. */
void mt_json_basis(struct mt_json *j, const struct mt_report *r, const struct mt_totals *t);
/* CSV: the last columns of a comparison's row: bytes_low, bytes_high. */
void mt_csv_growth(struct mt_buf *out, const struct mt_diff_row *row);
/* JSON: the member "large_blocks", the list of big blocks of the statistics. */
void mt_json_large(struct mt_json *j, const struct mt_report *r);
/* CSV: the last columns of a row: samples, bytes_low, bytes_high; empty for NULL or no bound. */
void mt_csv_estimate(struct mt_buf *out, const struct mt_estimate *e);

/* Big blocks of the statistics, largest first. Caller frees with free(); NULL: no memory. */
struct mt_big_row {
	const struct mt_profile *p;
	const struct mt_profile_big *big;
};
struct mt_big_row *mt_basis_big(const struct mt_report *r, uint32_t *ret_count,
				uint64_t *ret_bytes);

#endif
