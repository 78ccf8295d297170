/* SPDX-License-Identifier: MIT */
/*
 * What all images have in common: tables, looking things up in them, and reading. An image that
 * does not change remembers what lies around small reads, so that walking a heap word by word costs
 * few system calls.
 */

#include "target/image_internal.h"

#include "base/alloc.h"
#include "base/search.h"
#include "core/cc.h"
#include "core/sys.h"
#include "target/image_absent.h"
#include "target/image_core.h"
#include "target/image_keeper.h"
#include "target/image_process.h"

#include <errno.h>
#include <string.h>
#include <unistd.h>

enum { UNREADABLE_PAGES_MAX = 1 << 20 };

struct mt_image *mt_image_new(const struct mt_image_ops *ops)
{
	struct mt_image *im = mt_alloc_zero(1, sizeof(*im));

	if (!im)
		return NULL;
	im->ops = ops;
	im->mem_fd = -1;
	pthread_mutex_init(&im->lock, NULL);
	im->facts.page_bytes = 4096;
	im->facts.program = "";
	im->arena = mt_arena_new();
	if (im->arena)
		return im;
	free(im);
	return NULL;
}

void mt_image_close(struct mt_image *im)
{
	if (!im)
		return;
	mt_keeper_end(im->keeper);
	mt_core_free(im->core);
	mt_image_absent_free(im->absent);
	if (im->mem_fd >= 0)
		close(im->mem_fd);
	free(im->window);
	free(im->apart);
	mt_map_done(&im->unreadable_pages);
	pthread_mutex_destroy(&im->lock);
	mt_arena_free(im->arena);
	free(im);
}

const struct mt_image_facts *mt_image_facts(const struct mt_image *im)
{
	struct mt_image *now = (struct mt_image *)im; /* what time brings */

	if (im->facts.source == MT_IMAGE_STOPPED)
		now->facts.stop_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - im->began_ns;
	if (im->facts.source == MT_IMAGE_COPY)
		now->facts.faults_since = mt_image_faults(im->facts.pid) - im->faults_then;
	return &im->facts;
}

const struct mt_mapping *mt_image_mappings(const struct mt_image *im, size_t *ret_count)
{
	*ret_count = im->mapping_count;
	return im->mapping;
}

const struct mt_image_thread *mt_image_threads(const struct mt_image *im, size_t *ret_count)
{
	*ret_count = im->thread_count;
	return im->thread;
}

const struct mt_image_module *mt_image_modules(const struct mt_image *im, size_t *ret_count)
{
	*ret_count = im->module_count;
	return im->module;
}

uint64_t mt_image_auxv(const struct mt_image *im, uint64_t type)
{
	for (size_t i = 0; i < im->auxv_count && im->auxv[i].a_type != AT_NULL; i++)
		if (im->auxv[i].a_type == type)
			return im->auxv[i].a_un.a_val;
	return 0;
}

const struct mt_mapping *mt_image_mapping_of(const struct mt_image *im, uint64_t address)
{
	size_t a = MT_SEARCH_UP_TO(im->mapping, im->mapping_count, start, address);

	return a && address < im->mapping[a - 1].end ? &im->mapping[a - 1] : NULL;
}

const struct mt_image_module *mt_image_module_of(const struct mt_image *im, uint64_t address)
{
	for (size_t i = 0; i < im->module_count; i++) {
		const struct mt_image_module *m = &im->module[i];

		for (uint32_t k = 0; k < m->segment_count; k++)
			if (address >= m->segments[k].start && address < m->segments[k].end)
				return m;
	}
	return NULL;
}

void mt_image_note_unreadable(struct mt_image *im, uint64_t address, uint64_t bytes)
{
	uint64_t page_bytes = im->facts.page_bytes;
	uint64_t page = address / page_bytes, last = (address + bytes - 1) / page_bytes;

	pthread_mutex_lock(&im->lock);
	for (; bytes && page <= last; page++) {
		bool is_new = false;

		if (im->unreadable_pages.count >= UNREADABLE_PAGES_MAX)
			break;
		if (mt_map_at(&im->unreadable_pages, page, &is_new) && is_new)
			im->facts.unreadable_bytes += page_bytes;
	}
	pthread_mutex_unlock(&im->lock);
}

/* ---- reading ---- */

int mt_image_remember(struct mt_image *im)
{
	if (im->window)
		return 0;
	im->window = mt_alloc_zero(MT_IMAGE_WINDOWS, sizeof(*im->window));
	if (!im->window)
		return -ENOMEM;
	for (size_t i = 0; i < MT_IMAGE_WINDOWS; i++)
		im->window[i].start = UINT64_MAX;
	return 0;
}

/*
 * How many of [address, address + bytes) lie in mappings that can be read. A system call for the
 * rest would only fail. Only the memory of a process that runs on may have changed since.
 */
static size_t readable(const struct mt_image *im, uint64_t address, size_t bytes)
{
	const struct mt_mapping *m, *all_end = im->mapping + im->mapping_count;
	uint64_t at = address;

	if (im->facts.source != MT_IMAGE_COPY && im->facts.source != MT_IMAGE_STOPPED)
		return bytes;
	for (m = mt_image_mapping_of(im, address); m && m < all_end && m->start <= at; m++) {
		if (!m->in_image)
			break;
		at = m->end;
		if (at - address >= bytes)
			return bytes;
	}
	return (size_t)(at - address);
}

static size_t read_large(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	bytes = readable(im, address, bytes);
	return bytes ? im->ops->read(im, address, to, bytes) : 0;
}

/* Fills a window with what surrounds an address, as far as its mapping goes. */
static void fill_window(struct mt_image *im, struct mt_image_window *w, uint64_t address)
{
	const struct mt_mapping *m = mt_image_mapping_of(im, address);
	uint64_t start = MT_ALIGN_DOWN(address, (uint64_t)MT_IMAGE_WINDOW_BYTES);
	uint64_t end = start + MT_IMAGE_WINDOW_BYTES;

	/* not beyond: what comes next may be shared memory, and to look at that makes it */
	if (m) {
		start = MT_MAX(start, m->start);
		end = start + MT_MIN(end - start, m->end - start);
	}
	w->start = UINT64_MAX;
	w->bytes = read_large(im, start, w->data, (size_t)(end - start));
	w->start = start;
}

/* The first part of a read, up to the end of a window. How many bytes of it could be read. */
static size_t read_window(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	uint64_t number = address / MT_IMAGE_WINDOW_BYTES;
	struct mt_image_window *w = &im->window[number % MT_IMAGE_WINDOWS];
	uint64_t rest = (number + 1) * MT_IMAGE_WINDOW_BYTES - address;

	if (address - w->start >= w->bytes)
		fill_window(im, w, address);
	if (address - w->start >= w->bytes) /* what could not be read may lie before */
		return read_large(im, address, to, (size_t)MT_MIN(bytes, rest));
	bytes = MT_MIN(bytes, w->bytes - (size_t)(address - w->start));
	memcpy(to, w->data + (address - w->start), bytes);
	return bytes;
}

static size_t read_small(struct mt_image *im, uint64_t address, uint8_t *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		size_t n = read_window(im, address + done, to + done, bytes - done);

		if (!n)
			break;
		done += n;
	}
	return done;
}

/*
 * A read ended early: counts the page, if the mapping says that it should be there. What a core
 * file lacks was counted when it was opened.
 */
static void note_short(struct mt_image *im, uint64_t address)
{
	const struct mt_mapping *m = mt_image_mapping_of(im, address);

	if (m && m->in_image && im->facts.source != MT_IMAGE_CORE)
		mt_image_note_unreadable(im, address, 1);
}

size_t mt_image_read(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	size_t done;

	if (bytes > UINT64_MAX - address)
		bytes = (size_t)(UINT64_MAX - address);
	if (!bytes)
		return 0;
	if (im->window && bytes < MT_IMAGE_WINDOW_BYTES / 2)
		done = read_small(im, address, to, bytes);
	else
		done = read_large(im, address, to, bytes);
	if (done < bytes)
		note_short(im, address + done);
	return done;
}

size_t mt_image_read_at_once(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	size_t done;

	if (bytes > UINT64_MAX - address)
		bytes = (size_t)(UINT64_MAX - address);
	done = bytes ? read_large(im, address, to, bytes) : 0;
	if (done < bytes)
		note_short(im, address + done);
	return done;
}

int mt_image_read_all(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	return mt_image_read(im, address, to, bytes) == bytes ? 0 : -EFAULT;
}
