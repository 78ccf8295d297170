/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_ALLOCATORS_H
#define MT_REPORT_ALLOCATORS_H

/*
 * What an allocator holds, as text and as JSON (docs/heaps.md). Nothing here prints. Deterministic:
 * same heap, same bytes.
 */

#include "base/buf.h"
#include "heap/heap.h"
#include "heap/pinned.h"
#include "report/report.h"

#define MT_JSON_SCHEMA_ALLOCATORS "memtrack-allocators-1"

struct mt_allocators_report {
	const struct mt_heap *heap; /* borrowed, as all below */
	const struct mt_image_facts *facts;
	const struct mt_heap_pinned *pinned;
	/* call stacks: owners of pinned are sites of the first profile. NULL: none are known */
	const struct mt_report *sites;
	bool is_partly_recorded; /* so that none are told */
	uint64_t top;            /* sites that are listed; 0: all */
};

/* Appends it; the text ends with the damage, if there is any. 0 or -ENOMEM. */
int mt_allocators_text(const struct mt_allocators_report *r, struct mt_buf *out);
int mt_allocators_json(const struct mt_allocators_report *r, struct mt_buf *out);

#endif
