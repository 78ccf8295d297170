/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_TOP_H
#define MT_CLI_TOP_H

/*
 * memtrack top without its terminal: what is watched, which rows there are in which order, and the
 * text of each line. The screen (top_screen.h) paints it, --batch prints it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "cli/command.h"
#include "cli/watched.h"

enum mt_top_view {
	MT_TOP_PROCESSES = 0,
	/* of the process that is open: */
	MT_TOP_SITES,
	MT_TOP_THREADS,
	MT_TOP_SIZES,
	MT_TOP_TIMELINE,
	MT_TOP_VIEWS,
};

enum { MT_TOP_VALUES = 7, MT_TOP_FILTER_MAX = 64, MT_TOP_MESSAGE_MAX = 240 };

/* A value that is not known (yet). */
#define MT_TOP_UNKNOWN INT64_MIN

struct mt_top_row {
	uint64_t key; /* pid, site, tid, bucket: what the cursor stays on */
	int64_t value[MT_TOP_VALUES];
	size_t text; /* offset in mt_top.texts */
};

struct mt_top {
	/* settings, may be changed between updates */
	enum mt_top_view view;
	int sort[MT_TOP_VIEWS]; /* column; -1: by text */
	bool is_reversed[MT_TOP_VIEWS];
	char filter[MT_TOP_FILTER_MAX]; /* rows whose text holds it, in any case; "": all */
	bool is_paused;
	bool is_ascii;                    /* charts of plain characters */
	char message[MT_TOP_MESSAGE_MAX]; /* shown once in the last line */

	const struct mt_operands *only; /* PIDs and name:PROGRAM; NULL or empty: all */
	struct mt_watched_list list;
	uint64_t found_ns, find_took_ns;
	struct mt_watched open;               /* path NULL: none */
	unsigned open_what, open_what_before; /* what its last two readings read */
	struct mt_watch_site *first_site;     /* owned: as it was opened */
	uint32_t first_site_count;
	const struct mt_site_names *names, *quick_names; /* borrowed; of the open process */

	struct mt_top_row *row; /* owned; sorted and filtered */
	size_t row_count, row_capacity;
	struct mt_buf texts;            /* each followed by NUL */
	uint64_t cursor[MT_TOP_VIEWS];  /* key of the chosen row; 0: the first */
	size_t first_row[MT_TOP_VIEWS]; /* first that is shown */
};

void mt_top_init(struct mt_top *t);
void mt_top_done(struct mt_top *t);
MT_AUTO_DEFINE_INPLACE(mt_top, struct mt_top, mt_top_done)

enum mt_top_reading { MT_TOP_READ = 0, MT_TOP_FIND = 1 };

/*
 * Reads everything again, and looks for processes that came or went when it is time or `reading`
 * says so. 0 or -ENOMEM.
 */
int mt_top_update(struct mt_top *t, enum mt_top_reading reading);

/* Makes the rows anew from what was read; after any change of settings. 0 or -ENOMEM. */
int mt_top_arrange(struct mt_top *t);

/* Opens the process of this pid in the list, or closes the open one. 0, -ESRCH or -ENOMEM. */
int mt_top_open(struct mt_top *t, int32_t pid);
void mt_top_close(struct mt_top *t);

/* The row under the cursor, or SIZE_MAX; moves the cursor by rows (clamped). */
size_t mt_top_cursor(const struct mt_top *t);
void mt_top_move(struct mt_top *t, long rows);

/* The next or previous column to sort by. */
void mt_top_next_sort(struct mt_top *t, int step);

/* Sites whose names the rows want, widest first; how many (at most max). */
uint32_t mt_top_wanted_sites(const struct mt_top *t, uint32_t *ret, uint32_t max);

const char *mt_top_row_text(const struct mt_top *t, size_t row);

/* Lines of a page. */
enum mt_top_kind {
	MT_TOP_TITLE,
	MT_TOP_HEAD,
	MT_TOP_ROW,
	MT_TOP_CHOSEN,
	MT_TOP_CHART,
	MT_TOP_FOOT,
};

/* Called for each line from the first to the last; text is UTF-8 without controls. */
typedef void mt_top_line(void *context, enum mt_top_kind kind, const char *text);

/* The present view, at most `height` lines for a screen of `width` columns. */
void mt_top_page(struct mt_top *t, unsigned width, unsigned height, mt_top_line *line,
		 void *context);

/* The present view as plain text, all rows, or the first max_rows; 0 or -ENOMEM. */
int mt_top_print(struct mt_top *t, size_t max_rows, struct mt_buf *out);

#endif
