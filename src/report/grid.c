/* SPDX-License-Identifier: MIT */
/* Aligned columns. Width counts UTF-8 characters, not bytes; names may hold any. */

#include "report/grid.h"

#include "base/escape.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

void mt_grid_init(struct mt_grid *g, const char *align)
{
	*g = (struct mt_grid){0};
	for (; align[g->columns] && g->columns < MT_GRID_COLUMNS_MAX; g->columns++)
		g->is_left[g->columns] = align[g->columns] == 'l';
}

void mt_grid_done(struct mt_grid *g)
{
	mt_buf_done(&g->cells);
}

static size_t text_width(const char *text)
{
	size_t width = 0;

	for (; *text; text++)
		width += ((unsigned char)*text & 0xc0) != 0x80;
	return width;
}

void mt_grid_add(struct mt_grid *g, const char *text)
{
	size_t start = g->cells.len, width;
	unsigned column = g->cell_count++ % g->columns;

	if (mt_escape(&g->cells, text) || mt_buf_addc(&g->cells, 0))
		return;
	width = text_width(g->cells.data + start);
	if (width > g->width[column])
		g->width[column] = width;
}

void mt_grid_addf(struct mt_grid *g, const char *fmt, ...)
{
	struct mt_buf text = {0};
	va_list ap;

	va_start(ap, fmt);
	if (mt_buf_vprintf(&text, fmt, ap))
		g->cells.failed = true;
	va_end(ap);
	mt_grid_add(g, mt_buf_text(&text));
	mt_buf_done(&text);
}

int mt_grid_write(const struct mt_grid *g, unsigned indent, struct mt_buf *out)
{
	const char *cell = g->cells.data;
	size_t pending = 0; /* blanks that are only written when something follows */

	if (g->cells.failed)
		return -ENOMEM;
	for (size_t i = 0; i < g->cell_count; i++, cell += strlen(cell) + 1) {
		unsigned column = i % g->columns;
		size_t pad = g->width[column] - text_width(cell);

		pending += column ? 2 : indent;
		if (!g->is_left[column])
			pending += pad;
		if (*cell) {
			mt_buf_pad(out, ' ', pending);
			mt_buf_adds(out, cell);
			pending = 0;
		}
		if (g->is_left[column])
			pending += pad;
		if (column + 1 == g->columns) {
			mt_buf_addc(out, '\n');
			pending = 0;
		}
	}
	return out->failed ? -ENOMEM : 0;
}
