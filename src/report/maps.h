/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_MAPS_H
#define MT_REPORT_MAPS_H

/*
 * The mappings of processes as text, JSON and CSV (docs/meminfo.md). Nothing here prints.
 * Deterministic: same account and options, same bytes.
 */

#include "base/buf.h"
#include "report/json.h"
#include "target/account.h"

#include <sys/types.h>

enum mt_maps_format { MT_MAPS_TEXT, MT_MAPS_JSON, MT_MAPS_CSV };

struct mt_maps_view {
	pid_t pid;            /* 0: a file */
	const char *name;     /* of the program, or the file; borrowed as all below */
	const char *old_name; /* of what the account is compared with; NULL: nothing */
	const struct mt_smaps *s;
	const struct mt_account *a;
	enum mt_account_column sort;
	size_t top; /* rows; 0: all */
	/* what a reader must know first, one sentence each */
	const char *const *warning;
	size_t warnings;
};

#define MT_MAPS_SCHEMA "memtrack-maps-1"

/* One process alone. 0 or -ENOMEM. */
int mt_maps_write(const struct mt_maps_view *v, enum mt_maps_format format, struct mt_buf *out);

/*
 * Several: head, each process, tail. refused: processes that could not be read. `j` is zeroed by
 * the caller and given to all three.
 */
void mt_maps_head(enum mt_maps_format format, struct mt_json *j, struct mt_buf *out);
int mt_maps_each(const struct mt_maps_view *v, enum mt_maps_format format, struct mt_json *j,
		 struct mt_buf *out);
void mt_maps_tail(enum mt_maps_format format, size_t processes, size_t refused, struct mt_json *j,
		  struct mt_buf *out);

/* ---- private to report ---- */

/* The known fields of a sum as members of the open object: "rss_bytes" and so on. */
void mt_maps_json_sum(struct mt_json *j, const struct mt_smaps_sum *s);

/* "size_bytes,rss_bytes,...": the same fields as columns, and the values, empty if not known. */
void mt_maps_csv_names(struct mt_buf *out);
void mt_maps_csv_values(const struct mt_smaps_sum *s, struct mt_buf *out);
/* Columns of what was before, each with a comma first; old_total NULL: empty ones. */
void mt_maps_csv_old_names(struct mt_buf *out);
void mt_maps_csv_old_values(const struct mt_smaps_sum *old, const struct mt_smaps_sum *old_total,
			    struct mt_buf *out);

#endif
