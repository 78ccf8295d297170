/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_LEAKS_H
#define MT_REPORT_LEAKS_H

/*
 * Lost blocks (reach/find.h) as text for people and as JSON. Nothing here prints. Deterministic
 * but for the times. docs/reachability.md describes both.
 */

#include "reach/find.h"
#include "report/report.h"
#include "target/copy_cost.h"

enum { MT_LEAKS_CONTENTS_MAX = 32 };

/* Lost blocks of a call site, by those that were recorded: in sampling mode. */
struct mt_leaks_site {
	uint32_t site; /* of the first profile of mt_leaks_report.sites */
	struct mt_estimate lost;
};

struct mt_leaks_report {
	const struct mt_find *find; /* borrowed, as all below */
	const struct mt_image_facts *facts;
	const struct mt_copy_cost *cost; /* of the copy; NULL: is not told */
	const char *name;                /* of the process or core file */
	bool is_table;                   /* the blocks are those of the tracker's table */
	/* call stacks: the stack of a block is a site of the first profile. NULL: none are known */
	const struct mt_report *sites;
	const struct mt_leaks_site *lost_site; /* most bytes first */
	size_t lost_sites;
	uint64_t top;   /* leaks that are listed; 0: all */
	bool is_strict; /* roots */
	/* contents: of each leak; NULL: not wanted */
	size_t (*read)(void *context, uint64_t address, void *to, size_t bytes);
	void *context;
};

/* Appends to out. 0 or -ENOMEM. */
int mt_leaks_text(const struct mt_leaks_report *r, struct mt_buf *out);
int mt_leaks_json(const struct mt_leaks_report *r, struct mt_buf *out);

#endif
