/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_VIEW_H
#define MT_REPORT_VIEW_H

/*
 * A tree of what is live (analysis/tree.h) as text, as JSON and as one HTML page that needs nothing
 * else. Nothing here prints. Deterministic: same tree and options, same bytes.
 */

#include "analysis/tree.h"
#include "base/buf.h"

enum mt_view_format { MT_VIEW_TEXT, MT_VIEW_JSON, MT_VIEW_HTML };

struct mt_view {
	const struct mt_tree *tree;  /* borrowed, as all below */
	const char *by;              /* word of the command line */
	bool reverse, full_paths;    /* libraries: the whole path, not its last part alone */
	const char *name, *old_name; /* what was read; old_name NULL: no comparison */
	/* what a reader must know first, one sentence each */
	const char *const *warning;
	uint32_t warnings;
};

/* Appends it to out (an out.drain keeps that small). 0 or -ENOMEM. */
int mt_view_write(const struct mt_view *v, enum mt_view_format format, struct mt_buf *out);

/* ---- private to report ---- */

/* As one page. */
void mt_view_html(const struct mt_view *v, struct mt_buf *out);

/* What stands in the columns LIBRARY, FUNCTION and LOCATION; not escaped. */
const char *mt_view_library(const struct mt_view *v, const struct mt_tree_node *n);
const char *mt_view_function(const struct mt_tree_node *n);
void mt_view_location(const struct mt_tree_node *n, struct mt_buf *out);
double mt_view_percent(uint64_t part, uint64_t whole);
int64_t mt_view_growth(uint64_t now, uint64_t before);

/*
 * Calls enter for a root and all below it, parents first, siblings in order, and leave (may be
 * NULL) once all below a node was entered and left. Needs no stack of its own.
 */
void mt_view_walk(const struct mt_tree *t, uint32_t root,
		  void (*enter)(void *context, const struct mt_tree_node *n),
		  void (*leave)(void *context, const struct mt_tree_node *n), void *context);

#endif
