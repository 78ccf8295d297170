/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_TOP_INTERNAL_H
#define MT_CLI_TOP_INTERNAL_H

/* What the rows and the pages of top share. */

#include "cli/top.h"

enum mt_top_unit { MT_TOP_PLAIN, MT_TOP_MODE, MT_TOP_SIZE, MT_TOP_CHANGE, MT_TOP_COUNT };

struct mt_top_column {
	const char *head;
	unsigned width;
	enum mt_top_unit unit;
	unsigned flags; /* enum mt_top_column_flags */
};

enum mt_top_column_flags {
	MT_TOP_NAME = 1,   /* a number that names something: sorted upwards */
	MT_TOP_HIDDEN = 2, /* sorts only */
};

struct mt_top_table {
	const char *name;
	struct mt_top_column column[MT_TOP_VALUES];
	unsigned columns;
	const char *text_head;
	int sort; /* column at the beginning */
};

extern const struct mt_top_table mt_top_views[MT_TOP_VIEWS];

#endif
