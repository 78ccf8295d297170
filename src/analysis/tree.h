/* SPDX-License-Identifier: MIT */
#ifndef MT_ANALYSIS_TREE_H
#define MT_ANALYSIS_TREE_H

/*
 * What is live as a tree of calls, sizes or libraries: of one side, or of two to compare. Frames
 * count by their place in a module, not by their address, so that two runs fit together.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "analysis/names.h"
#include "base/cleanup.h"

enum mt_tree_by {
	MT_TREE_CALLERS,  /* from the program's entry inwards */
	MT_TREE_CALLEES,  /* from the allocating frame outwards */
	MT_TREE_FUNCTION, /* the same by function: its call sites are one */
	MT_TREE_LIBRARY,  /* the same by library: neighbours of one library are one */
	MT_TREE_SIZE,     /* by size of block, below it as CALLEES */
};

enum mt_tree_kind {
	MT_TREE_ROOT,
	MT_TREE_FRAME,
	MT_TREE_LIBRARY_ROW,
	MT_TREE_SIZE_ROW,
	MT_TREE_NO_STACK, /* blocks of which no frame is known */
};

enum mt_tree_side { MT_TREE_NEW = 0, MT_TREE_OLD = 1 };

struct mt_tree_node {
	enum mt_tree_kind kind;
	uint32_t parent, first, count; /* children: mt_tree.order[first .. first + count) */
	uint32_t rank;                 /* among its siblings */
	uint32_t depth;                /* 0: a root */
	struct mt_tree_sum {
		uint64_t bytes, count;
	} sum[2]; /* by enum mt_tree_side; OLD is 0 when there is one side */
	/* borrowed from profiles and names; NULL: not known, or not the same for all of it */
	const char *root; /* ROOT: "" when there is but one */
	const char *library, *function, *file;
	uint32_t line;
	uint64_t address; /* FRAME: inside the call; 0: not the same for all of it */
	uint64_t size;    /* SIZE_ROW */
	bool is_inlined;  /* into the frame that calls it */
};

struct mt_tree_query {
	enum mt_tree_by by;
	bool reverse;                 /* the other direction */
	const struct mt_names *names; /* NULL: none */
};

struct mt_tree {
	struct mt_tree_node *node; /* owned; the roots first */
	uint32_t *order;           /* owned: children, widest first */
	uint32_t count, roots;
	struct mt_tree_sum sum[2]; /* over all roots */
	bool has_old;
	bool is_estimate; /* some counts are of samples */
};

/* NULL is allowed; all-zero is empty. */
void mt_tree_done(struct mt_tree *t);
MT_AUTO_DEFINE_INPLACE(mt_tree, struct mt_tree, mt_tree_done)

/*
 * The tree of `p`, or of what differs between `old_p` and `p` (old_p NULL: there is one side).
 * Blocks of Android's zygote and of the application have a root each when both are there, the
 * application's first. Of two sides what did not change is in no order. Profiles and names are
 * borrowed and must outlive the tree. Same input, same tree. 0 or -ENOMEM.
 */
int mt_tree_make(const struct mt_profile *p, const struct mt_profile *old_p,
		 const struct mt_tree_query *query, struct mt_tree *ret_tree);

#endif
