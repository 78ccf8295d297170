/* SPDX-License-Identifier: MIT */
/* The lines of top: a title, the names of the columns, rows, a last line with keys or a message. */

#include "cli/top.h"
#include "cli/top_internal.h"

#include "analysis/names.h"
#include "base/escape.h"
#include "base/units.h"
#include "core/cc.h"
#include "wire/state.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

const struct mt_top_table mt_top_views[MT_TOP_VIEWS] = {
	[MT_TOP_PROCESSES] = {.name = "processes",
			      .column = {{"PID", 7, MT_TOP_PLAIN, MT_TOP_NAME},
					 {"MODE", 6, MT_TOP_MODE, MT_TOP_NAME},
					 {"LIVE", 9, MT_TOP_SIZE, 0},
					 {"GROWTH", 9, MT_TOP_CHANGE, 0},
					 {"ALLOC/S", 10, MT_TOP_COUNT, 0},
					 {"EVENT/S", 10, MT_TOP_COUNT, 0},
					 {"LOST", 7, MT_TOP_COUNT, 0}},
			      .columns = 7,
			      .text_head = "PROGRAM",
			      .sort = 2},
	[MT_TOP_SITES] = {.name = "sites",
			  .column = {{"LIVE", 9, MT_TOP_SIZE, 0},
				     {"GROWTH", 9, MT_TOP_CHANGE, 0},
				     {"BLOCKS", 9, MT_TOP_COUNT, 0},
				     {"ALLOC/S", 10, MT_TOP_COUNT, 0},
				     {"EVER", 9, MT_TOP_SIZE, 0}},
			  .columns = 5,
			  .text_head = "SITE",
			  .sort = 0},
	[MT_TOP_THREADS] = {.name = "threads",
			    .column = {{"TID", 7, MT_TOP_PLAIN, MT_TOP_NAME},
				       {"LIVE", 9, MT_TOP_SIZE, 0},
				       {"ALLOCS", 13, MT_TOP_COUNT, 0},
				       {"ALLOC/S", 10, MT_TOP_COUNT, 0},
				       {"REALLOCS", 11, MT_TOP_COUNT, 0},
				       {"GROWN/S", 9, MT_TOP_COUNT, 0}},
			    .columns = 6,
			    .text_head = "THREAD",
			    .sort = 1},
	[MT_TOP_SIZES] = {.name = "sizes",
			  .column = {{"ALLOCS", 13, MT_TOP_COUNT, 0},
				     {"ALLOC/S", 10, MT_TOP_COUNT, 0},
				     {"BLOCKS", 11, MT_TOP_COUNT, 0},
				     {"LIVE", 9, MT_TOP_SIZE, 0},
				     {"", 0, MT_TOP_PLAIN, MT_TOP_NAME | MT_TOP_HIDDEN}},
			  .columns = 5,
			  .text_head = "SIZE",
			  .sort = 4},
	[MT_TOP_TIMELINE] = {.name = "time line", .text_head = "", .sort = -1},
};

static const char process_keys[] = "q quit  ? help  Enter sites  / filter  < > sort  "
				   "space pause  m mode  n snapshot  e export";
static const char detail_keys[] = "q quit  ? help  Esc back  1 sites  2 threads  3 sizes  "
				  "4 time line  / filter  < > sort  space pause  m mode  "
				  "n snapshot  e export";

/* ---- cells ---- */

/* Sizes with a sign: counters of a thread may be negative. */
static char *size_text(int64_t v, char *text)
{
	uint64_t size = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;

	text[0] = '-';
	mt_units_size(size, text + (v < 0));
	return text;
}

static void value_text(const struct mt_top_column *c, int64_t v, char *text)
{
	if (v == MT_TOP_UNKNOWN) {
		snprintf(text, MT_UNITS_TEXT_MAX, "-");
		return;
	}
	switch (c->unit) {
	case MT_TOP_PLAIN:
		snprintf(text, MT_UNITS_TEXT_MAX, "%" PRId64, v);
		return;
	case MT_TOP_MODE:
		snprintf(text, MT_UNITS_TEXT_MAX, "%s", mt_words_mode((uint32_t)v));
		return;
	case MT_TOP_SIZE:
		size_text(v, text);
		return;
	case MT_TOP_CHANGE:
		mt_units_size_signed(v, text);
		return;
	case MT_TOP_COUNT:
		if (v < 0)
			mt_units_count_signed(v, text);
		else
			mt_units_count((uint64_t)v, text);
		return;
	}
}

static void write_row(const struct mt_top *t, size_t row, struct mt_buf *out)
{
	const struct mt_top_table *table = &mt_top_views[t->view];
	char text[MT_UNITS_TEXT_MAX];

	for (unsigned i = 0; i < table->columns; i++) {
		const struct mt_top_column *c = &table->column[i];

		if (c->flags & MT_TOP_HIDDEN)
			continue;
		value_text(c, t->row[row].value[i], text);
		if (c->unit == MT_TOP_MODE)
			mt_buf_printf(out, "%-*s ", (int)c->width, text);
		else
			mt_buf_printf(out, "%*s ", (int)c->width, text);
	}
	mt_buf_addc(out, ' ');
	mt_escape(out, mt_top_row_text(t, row));
}

/* The column that sorts is marked. */
static void write_head(const struct mt_top *t, struct mt_buf *out)
{
	const struct mt_top_table *table = &mt_top_views[t->view];
	const char *mark = t->is_reversed[t->view] ? "^" : "*";
	char text[MT_UNITS_TEXT_MAX];

	for (unsigned i = 0; i < table->columns; i++) {
		const struct mt_top_column *c = &table->column[i];

		if (c->flags & MT_TOP_HIDDEN)
			continue;
		snprintf(text, sizeof(text), "%s%s", t->sort[t->view] == (int)i ? mark : "",
			 c->head);
		mt_buf_printf(out, c->unit == MT_TOP_MODE ? "%-*s " : "%*s ", (int)c->width, text);
	}
	mt_buf_printf(out, " %s%s", t->sort[t->view] < 0 && table->columns ? mark : "",
		      table->text_head);
}

/* ---- title ---- */

static void write_sums(const struct mt_top *t, struct mt_buf *out)
{
	char live[MT_UNITS_TEXT_MAX], rate[MT_UNITS_TEXT_MAX];
	int64_t live_bytes = 0;
	uint64_t per_second = 0;

	for (size_t i = 0; i < t->row_count; i++) {
		live_bytes += t->row[i].value[2];
		if (t->row[i].value[4] > 0)
			per_second += (uint64_t)t->row[i].value[4];
	}
	mt_buf_printf(out, "memtrack top: %zu process%s, live %s, %s allocations/s", t->row_count,
		      t->row_count == 1 ? "" : "es", size_text(live_bytes, live),
		      mt_units_count(per_second, rate));
	if (t->list.unreadable)
		mt_buf_printf(out, ", %" PRIu64 " unreadable", t->list.unreadable);
}

static void write_process(const struct mt_top *t, struct mt_buf *out)
{
	const struct mt_watch *w = &t->open.now;
	char live[MT_UNITS_TEXT_MAX], peak[MT_UNITS_TEXT_MAX], interval[MT_UNITS_TEXT_MAX];

	mt_buf_printf(out, "%s of ", mt_top_views[t->view].name);
	mt_escape(out, t->open.program);
	mt_buf_printf(out, " (pid %" PRId32 "), %s", w->pid,
		      w->is_recording ? mt_words_mode(w->mode) : "off");
	if (w->interval_bytes)
		mt_buf_printf(out, " every %s", mt_units_size(w->interval_bytes, interval));
	if (w->every)
		mt_buf_printf(out, " one of every %s allocations",
			      mt_units_count(w->every, interval));
	mt_buf_printf(out, ", live %s, peak %s", size_text(w->live_bytes, live),
		      mt_units_size(w->peak_bytes, peak));
	if (t->open.is_stale || !w->is_running)
		mt_buf_adds(out, ", has ended");
}

static void write_title(const struct mt_top *t, struct mt_buf *out)
{
	if (t->view == MT_TOP_PROCESSES)
		write_sums(t, out);
	else
		write_process(t, out);
	if (*t->filter) {
		mt_buf_adds(out, ", with '");
		mt_escape(out, t->filter);
		mt_buf_addc(out, '\'');
	}
	if (t->is_paused)
		mt_buf_adds(out, " [paused]");
}

/* ---- time line ---- */

static const char *const blocks[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};
static const char *const ascii[] = {" ", ".", ":", "-", "=", "+", "*", "#", "@"};
enum { LEVELS = 8 };

/* The highest live bytes of each of `width` equal stretches of the history; -1: no reading. */
static void columns_of(const struct mt_watched_history *h, int64_t *column, unsigned width)
{
	uint64_t start = h->ns[0], span = h->ns[h->count - 1] - start + 1;
	int64_t last = -1;

	for (unsigned i = 0; i < width; i++)
		column[i] = -1;
	for (uint32_t i = 0; i < h->count; i++) {
		uint64_t at = (uint64_t)((long double)(h->ns[i] - start) * width / span);
		int64_t v = MT_MAX(h->live_bytes[i], 0);

		at = MT_MIN(at, (uint64_t)width - 1);
		column[at] = MT_MAX(column[at], v);
	}
	for (unsigned i = 0; i < width; i++) {
		column[i] = column[i] < 0 ? last : column[i];
		last = column[i];
	}
}

enum { CHART_WIDTH_MAX = 512, SCALE_WIDTH = 10 };

struct chart {
	int64_t column[CHART_WIDTH_MAX];
	unsigned width, height;
	int64_t low, high;
};

/* The line `row` from above, as parts of eight of each column. */
static void write_chart_line(const struct mt_top *t, const struct chart *c, unsigned row,
			     struct mt_buf *out)
{
	const char *const *part = t->is_ascii ? ascii : blocks;
	int64_t below = (int64_t)(c->height - 1 - row) * LEVELS;
	long double scale = (long double)c->height * LEVELS / (long double)(c->high - c->low);
	char text[MT_UNITS_TEXT_MAX] = "";

	if (!row)
		mt_units_size((uint64_t)c->high, text);
	else if (row == c->height - 1)
		mt_units_size((uint64_t)c->low, text);
	mt_buf_printf(out, "%*s ", SCALE_WIDTH - 1, text);
	for (unsigned i = 0; i < c->width; i++) {
		int64_t level = (int64_t)((long double)(c->column[i] - c->low) * scale) - below;

		/* what was read is at least seen */
		if (row == c->height - 1 && level < 1)
			level = 1;
		mt_buf_adds(out, part[level < 0 ? 0 : MT_MIN(level, (int64_t)LEVELS)]);
	}
}

static void scale_chart(struct chart *c)
{
	c->low = c->high = c->column[0];
	for (unsigned i = 1; i < c->width; i++) {
		c->low = MT_MIN(c->low, c->column[i]);
		c->high = MT_MAX(c->high, c->column[i]);
	}
	if (c->low > c->high / 2) /* a small change of much: show where it begins */
		c->low = c->low - (c->high - c->low);
	else
		c->low = 0;
	c->low = MT_MAX(c->low, 0);
	if (c->high == c->low) {
		c->low = 0;
		c->high = MT_MAX(c->high, 1);
	}
}

static void send_chart(const struct mt_top *t, unsigned width, unsigned height, mt_top_line *line,
		       void *context)
{
	const struct mt_watched_history *h = t->open.history;
	struct chart c = {.height = height > 1 ? height - 1 : 1};
	mt_auto(mt_buf) struct mt_buf text = {0};
	char time[MT_UNITS_TEXT_MAX];

	if (!h || !h->count || width <= SCALE_WIDTH)
		return;
	c.width = MT_MIN(width - SCALE_WIDTH, (unsigned)CHART_WIDTH_MAX);
	columns_of(h, c.column, c.width);
	scale_chart(&c);
	for (unsigned row = 0; row < c.height; row++) {
		mt_buf_truncate(&text, 0);
		write_chart_line(t, &c, row, &text);
		line(context, MT_TOP_CHART, mt_buf_text(&text));
	}
	if (height < 2)
		return;
	mt_buf_truncate(&text, 0);
	mt_buf_printf(&text, "%*s the last %s", SCALE_WIDTH - 1, "",
		      mt_units_time(h->ns[h->count - 1] - h->ns[0], time));
	line(context, MT_TOP_ROW, mt_buf_text(&text));
}

/* ---- pages ---- */

static const char *foot_of(const struct mt_top *t)
{
	if (*t->message)
		return t->message;
	return t->view == MT_TOP_PROCESSES ? process_keys : detail_keys;
}

/* Scrolls so that the cursor is among `shown` rows from the first on. */
static size_t scroll(struct mt_top *t, size_t cursor, size_t shown)
{
	size_t *first = &t->first_row[t->view];

	if (cursor == SIZE_MAX || !shown)
		return 0;
	if (cursor < *first)
		*first = cursor;
	if (cursor >= *first + shown)
		*first = cursor - shown + 1;
	if (*first + shown > t->row_count)
		*first = t->row_count > shown ? t->row_count - shown : 0;
	return *first;
}

static void send_rows(struct mt_top *t, unsigned height, mt_top_line *line, void *context)
{
	mt_auto(mt_buf) struct mt_buf text = {0};
	size_t cursor = mt_top_cursor(t), first = scroll(t, cursor, height);

	for (size_t i = first; i < t->row_count && i - first < height; i++) {
		mt_buf_truncate(&text, 0);
		write_row(t, i, &text);
		line(context, i == cursor ? MT_TOP_CHOSEN : MT_TOP_ROW, mt_buf_text(&text));
	}
	if (!t->row_count && height)
		line(context, MT_TOP_ROW,
		     *t->filter                    ? "nothing matches the filter"
		     : t->view == MT_TOP_PROCESSES ? "no process is tracked"
						   : "nothing was recorded");
}

void mt_top_page(struct mt_top *t, unsigned width, unsigned height, mt_top_line *line,
		 void *context)
{
	mt_auto(mt_buf) struct mt_buf text = {0};
	bool is_table = t->view != MT_TOP_TIMELINE;
	unsigned used = 2;

	write_title(t, &text);
	line(context, MT_TOP_TITLE, mt_buf_text(&text));
	if (is_table && height > 3) {
		mt_buf_truncate(&text, 0);
		write_head(t, &text);
		line(context, MT_TOP_HEAD, mt_buf_text(&text));
		used++;
	}
	if (height > used && is_table)
		send_rows(t, height - used, line, context);
	else if (height > used)
		send_chart(t, width, height - used, line, context);
	if (height > 1)
		line(context, MT_TOP_FOOT, foot_of(t));
}

/* ---- plain text ---- */

static void print_line(void *context, enum mt_top_kind kind, const char *text)
{
	if (kind != MT_TOP_FOOT) {
		mt_buf_adds(context, text);
		mt_buf_addc(context, '\n');
	}
}

int mt_top_print(struct mt_top *t, size_t max_rows, struct mt_buf *out)
{
	enum { CHART_COLUMNS = 80, CHART_LINES = 12 };
	size_t rows = MT_MIN(MT_MAX(t->row_count, 1u), max_rows);

	t->first_row[t->view] = 0;
	t->cursor[t->view] = 0;
	if (t->view == MT_TOP_TIMELINE)
		mt_top_page(t, CHART_COLUMNS, CHART_LINES, print_line, out);
	else
		mt_top_page(t, CHART_COLUMNS, (unsigned)MT_MIN(rows + 3, (size_t)UINT32_MAX),
			    print_line, out);
	return out->failed ? -ENOMEM : 0;
}
