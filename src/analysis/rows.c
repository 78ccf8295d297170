/* SPDX-License-Identifier: MIT */
/* A growing array of rows with an index by key. Keys are 64-bit hashes: two labels never share one.
 */

#include "analysis/rows.h"

#include "base/alloc.h"

void mt_rows_done(struct mt_rows *rows)
{
	free(rows->row);
	mt_map_done(&rows->index);
	rows->row = NULL;
	rows->count = rows->capacity = 0;
}

struct mt_row *mt_rows_get(struct mt_rows *rows, uint64_t key, const char *label)
{
	uint64_t at;
	struct mt_row *row;
	char *copy = NULL;

	if (mt_map_get(&rows->index, key, &at))
		return &rows->row[at];
	row = mt_alloc_grow(rows->row, &rows->capacity, rows->count + 1, sizeof(*row));
	if (!row)
		return NULL;
	rows->row = row;
	if (label) {
		copy = mt_arena_strdup(rows->arena, label);
		if (!copy)
			return NULL;
	}
	if (mt_map_set(&rows->index, key, rows->count))
		return NULL;
	row = &rows->row[rows->count++];
	*row = (struct mt_row){.key = key, .label = copy};
	return row;
}
