/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_GRID_H
#define MT_REPORT_GRID_H

/* Aligned columns of text: cells are collected, then written with the widths they need. */

#include "base/buf.h"

enum { MT_GRID_COLUMNS_MAX = 16 };

struct mt_grid {
	unsigned columns;
	bool is_left[MT_GRID_COLUMNS_MAX]; /* aligned left; else right */
	struct mt_buf cells;               /* each followed by NUL */
	size_t cell_count;
	size_t width[MT_GRID_COLUMNS_MAX];
};

/* An empty grid; `align` has one letter a column: l or r. */
void mt_grid_init(struct mt_grid *g, const char *align);
void mt_grid_done(struct mt_grid *g);
MT_AUTO_DEFINE_INPLACE(mt_grid, struct mt_grid, mt_grid_done)

/* The next cell, row by row. Memory failures are remembered and returned by mt_grid_write(). */
void mt_grid_add(struct mt_grid *g, const char *text);
void mt_grid_addf(struct mt_grid *g, const char *fmt, ...) MT_PRINTF(2, 3);

/* Appends the rows, two blanks between columns and `indent` in front; no blanks at line ends.
 * 0/-ENOMEM. */
int mt_grid_write(const struct mt_grid *g, unsigned indent, struct mt_buf *out);

#endif
