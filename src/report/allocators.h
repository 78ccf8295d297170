/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_ALLOCATORS_H
#define MT_REPORT_ALLOCATORS_H

/*
 * What an allocator holds, as text and as JSON (docs/heaps.md). Nothing here prints. Deterministic:
 * same heap, same bytes.
 */

#include "base/buf.h"
#include "heap/heap.h"

#define MT_JSON_SCHEMA_ALLOCATORS "memtrack-allocators-1"

/* Appends it; the text ends with the damage, if there is any. 0 or -ENOMEM. */
int mt_allocators_text(const struct mt_heap *h, const struct mt_image_facts *facts,
		       struct mt_buf *out);
int mt_allocators_json(const struct mt_heap *h, const struct mt_image_facts *facts,
		       struct mt_buf *out);

#endif
