/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_MTS_READ_H
#define MT_FORMATS_MTS_READ_H

/*
 * Reads series of snapshots (docs/formats/mts.md), also while they are written. The file may hold
 * anything; what is not right ends it.
 */

#include "base/err.h"
#include "formats/mts.h"
#include "model/profile.h"
#include "wire/state.h"

/* What is in a series beside its points. */
struct mt_mts_info {
	struct mt_mts_header header;
	uint32_t points;        /* that were visited */
	uint64_t end;           /* of the last good frame */
	uint64_t damaged_bytes; /* behind it */
};

/*
 * Called with each point in order; table holds its sites' values, NULL when they were not asked
 * for. 0 goes on, anything else ends the walk with that result.
 */
typedef int mt_mts_visit(void *user, const struct mt_series_point *point,
			 const struct mt_mts_table *table);

/*
 * Visits all points of a file in memory; with_sites: their tables too. 0, the visitor's result,
 * -ENOMEM, or with *err -ENODATA for an empty file, -EBADMSG for what is no series, and
 * -EPROTONOSUPPORT for another version or byte order. *ret_info (may be NULL) is set unless the
 * header was refused.
 */
int mt_mts_walk_memory(const void *data, size_t len, const char *name, bool with_sites,
		       mt_mts_visit *visit, void *user, struct mt_mts_info *ret_info,
		       struct mt_err *err);

/* As above from a file; also those errors of opening and reading. */
int mt_mts_walk(const char *path, bool with_sites, mt_mts_visit *visit, void *user,
		struct mt_mts_info *ret_info, struct mt_err *err);

/*
 * The whole series, with the sites' live bytes at up to `columns` points that lie evenly in the
 * list of points (all of them when there are no more). 0, or an error as above; -ENODATA also for a
 * series without points.
 */
int mt_mts_load(const char *path, uint32_t columns, struct mt_series **ret_series,
		struct mt_mts_header *ret_header, struct mt_err *err);
int mt_mts_load_memory(const void *data, size_t len, const char *name, uint32_t columns,
		       struct mt_series **ret_series, struct mt_mts_header *ret_header,
		       struct mt_err *err);

/*
 * Which snapshot of a series is meant: "first", "last", a number, a time since the start ("90s",
 * "2h30m"), or one before the last snapshot ("-10m"); of a time the nearest. The process is known
 * up to end_ns after its start. 0 with its point and table (freed with mt_mts_table_done()), or an
 * error as above, -EINVAL for what is none of these, -ENOENT for a number that is not there,
 * -ERANGE for a time that is not in the life of the process.
 */
int mt_mts_find(const char *path, const char *which, uint64_t end_ns,
		struct mt_series_point *ret_point, struct mt_mts_table *ret_table,
		struct mt_mts_header *ret_header, struct mt_err *err);

/*
 * Makes the live numbers of a profile those of a snapshot: see mt_profile.snapshot. Of a sampled
 * profile the table must know what was sampled.
 */
void mt_mts_apply(struct mt_profile *p, const struct mt_series_point *point,
		  const struct mt_mts_table *table);

/* Whether the series is of that state file's process. */
bool mt_mts_is_of(const struct mt_mts_header *h, const struct mt_state_header *state);

/* The name of the series of a state file: `.mtk` at the end becomes `.mts`, else that is added.
 * Heap; caller frees; NULL: no memory. */
char *mt_mts_path(const char *state_path) __attribute__((warn_unused_result));

#endif
