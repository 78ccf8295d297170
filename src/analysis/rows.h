/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_ROWS_H
#define MT_ANALYSIS_ROWS_H

/* Rows found by key while a table is built. Private to analysis. All-zero but for the arena is
 * valid. */

#include "analysis/table.h"
#include "base/arena.h"
#include "base/map.h"

struct mt_rows {
	struct mt_row *row;
	size_t count, capacity;
	struct mt_map index;    /* key -> row */
	struct mt_arena *arena; /* borrowed: labels */
};

/* Frees the rows and the index. */
void mt_rows_done(struct mt_rows *rows);

/*
 * The row with this key, made when it is new with a copy of label (NULL: a row without one). NULL:
 * ENOMEM. Valid until the next call.
 */
struct mt_row *mt_rows_get(struct mt_rows *rows, uint64_t key, const char *label);

#endif
