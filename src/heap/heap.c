/* SPDX-License-Identifier: MIT */
/* From the allocator that was found to its reader; what has none is refused by name. */

#include "heap/heap.h"

#include "base/search.h"
#include "base/units.h"
#include "heap/build.h"
#include "heap/detect.h"

#include <errno.h>
#include <stdlib.h>

static int refuse(const struct mt_heap_build *b, const struct mt_allocator_found *f,
		  struct mt_err *err)
{
	char text[MT_UNITS_TEXT_MAX];
	uint64_t cut_bytes = mt_image_facts(b->im)->cut_bytes;

	/* what it is told by may be in the part that is missing */
	if (cut_bytes && (!f->module || f->allocator == MT_ALLOCATOR_UNKNOWN))
		return mt_err_set(err, -ENOTSUP,
				  "the core file is cut: %s are missing, with memory of the C "
				  "library, so that the allocator cannot be told",
				  mt_units_size(cut_bytes, text));
	if (!f->module)
		return mt_err_set(err, -ENOTSUP, "no module of the process defines malloc");
	if (f->allocator == MT_ALLOCATOR_UNKNOWN)
		return mt_err_set(err, -ENOTSUP,
				  "malloc is that of '%s', an allocator that is not known",
				  f->module->path);
	return mt_err_set(err, -ENOTSUP,
			  "malloc is that of %s ('%s'), whose heap cannot be read from outside",
			  f->name, f->module->path);
}

/* A static program without symbols may hold either C library: what proves itself counts. */
static int read_static(struct mt_heap_build *b, const struct mt_allocator_found *f,
		       struct mt_err *err)
{
	struct mt_err none = {0};
	int code = mt_heap_read_musl(b, f->module, &none);

	if (code != -ENOTSUP || b->ranges_only) {
		if (code && err)
			*err = none;
		b->h->allocator = "musl";
		return code;
	}
	code = mt_heap_read_glibc(b, f->module, &none);
	if (code != -ENOTSUP) {
		if (code && err)
			*err = none;
		b->h->allocator = "glibc";
		return code;
	}
	return refuse(b, f, err);
}

static int read_found(struct mt_heap_build *b, const struct mt_allocator_found *f,
		      struct mt_err *err)
{
	b->h->allocator = f->name;
	switch (f->allocator) {
	case MT_ALLOCATOR_GLIBC:
		return b->ranges_only ? 0 : mt_heap_read_glibc(b, f->module, err);
	case MT_ALLOCATOR_MUSL:
		return mt_heap_read_musl(b, f->module, err);
	case MT_ALLOCATOR_JEMALLOC:
		return mt_heap_read_jemalloc(b, f->module, err);
	case MT_ALLOCATOR_MIMALLOC:
		return mt_heap_read_mimalloc(b, f->module, err);
	case MT_ALLOCATOR_SCUDO:
		return mt_heap_read_scudo(b, f->module, err);
	case MT_ALLOCATOR_TCMALLOC:
		return mt_heap_read_tcmalloc(b, f->module, err);
	case MT_ALLOCATOR_UNKNOWN:
		if (f->module && f->module->is_main)
			return read_static(b, f, err);
		MT_FALLTHROUGH;
	default:
		return refuse(b, f, err);
	}
}

static int read_heap(struct mt_image *im, bool ranges_only, struct mt_heap *ret_heap,
		     struct mt_err *err)
{
	mt_auto(mt_heap_build) struct mt_heap_build b = {0};
	struct mt_allocator_found found;
	struct mt_heap h;
	int code, gone;

	if (mt_heap_build_init(&b, im, &h))
		return mt_err_no_memory(err);
	b.ranges_only = ranges_only;
	mt_allocator_find(im, &found);
	code = read_found(&b, &found, err);
	if (!code && mt_heap_build_finish(&b))
		code = mt_err_no_memory(err);
	gone = mt_image_is_there(im, err);
	if (gone)
		code = gone;
	if (code)
		mt_heap_done(&h);
	else
		*ret_heap = h;
	return code;
}

int mt_heap_read(struct mt_image *im, struct mt_heap *ret_heap, struct mt_err *err)
{
	return read_heap(im, false, ret_heap, err);
}

int mt_heap_read_ranges(struct mt_image *im, struct mt_heap *ret_heap, struct mt_err *err)
{
	return read_heap(im, true, ret_heap, err);
}

void mt_heap_done(struct mt_heap *h)
{
	if (!h)
		return;
	free(h->blocks);
	free(h->ranges);
	free(h->arenas);
	free(h->damages);
	*h = (struct mt_heap){0};
}

struct mt_heap_arena mt_heap_sum(const struct mt_heap *h)
{
	struct mt_heap_arena s = {0};

	for (size_t i = 0; i < h->arena_count; i++) {
		const struct mt_heap_arena *a = &h->arenas[i];

		s.held_bytes += a->held_bytes;
		s.live_bytes += a->live_bytes;
		s.live_blocks += a->live_blocks;
		s.free_bytes += a->free_bytes;
		s.free_blocks += a->free_blocks;
		s.cached_bytes += a->cached_bytes;
		s.cached_blocks += a->cached_blocks;
		s.free_page_bytes += a->free_page_bytes;
		s.top_bytes += a->top_bytes;
		s.mapped_bytes += a->mapped_bytes;
		s.mapped_blocks += a->mapped_blocks;
		s.own_bytes += a->own_bytes;
		s.own_blocks += a->own_blocks;
	}
	return s;
}

const struct mt_heap_block *mt_heap_block_of(const struct mt_heap *h, uint64_t address)
{
	size_t low = MT_SEARCH_UP_TO(h->blocks, h->block_count, address, address);

	if (!low || address - h->blocks[low - 1].address >= MT_MAX(h->blocks[low - 1].bytes, 1u))
		return NULL;
	return &h->blocks[low - 1];
}
