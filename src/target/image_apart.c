/* SPDX-License-Identifier: MIT */
/*
 * A copy is a fork: it lacks mappings with MADV_DONTFORK, and has those with MADV_WIPEONFORK full
 * of zeros. A program may have pointers there, so that their bytes are taken from the process as
 * soon as the copy is there. It runs on by then: what is read may be of a moment later.
 */

#include "target/image_apart.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/search.h"
#include "core/cc.h"
#include "target/pagemap.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1 << 30 };
#define TAKEN_BYTES_MAX ((uint64_t)64 << 20)
/* What the tracker has wiped to notice a fork (runtime/process.c) holds no pointer. */
#define TRACKERS_BYTES ((uint64_t)65536)

static int read_text(pid_t pid, const char *name, char **ret_text)
{
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return mt_file_read(path, TEXT_BYTES_MAX, ret_text, &len, NULL);
}

/* Whether a line of smaps is the head of a mapping, and where that begins. */
static bool is_head(const char *line, uint64_t *ret_start)
{
	size_t digits = strspn(line, "0123456789abcdef");

	if (!digits || line[digits] != '-')
		return false;
	*ret_start = strtoull(line, NULL, 16);
	return true;
}

/*
 * Calls for each mapping of the list, which is sorted, that has a flag in VmFlags of smaps. The
 * text is changed. 0, or what the call returned.
 */
static int with_flag(struct mt_image *im, char *text, const char *flag, struct mt_mapping *m,
		     size_t count, int (*call)(struct mt_image *im, struct mt_mapping *m))
{
	struct mt_mapping *end = m + count;
	bool is_listed = false;
	int code = 0;

	for (char *line = text, *next; line && m < end && !code; line = next) {
		uint64_t start;

		next = strchr(line, '\n');
		if (next)
			*next++ = 0;
		if (is_head(line, &start)) {
			while (m < end && m->start < start)
				m++;
			is_listed = m < end && m->start == start;
		} else if (is_listed && !strncmp(line, "VmFlags:", 8) && strstr(line, flag)) {
			code = call(im, m);
		}
	}
	return code;
}

/* ---- bytes ---- */

/* Pages that are there; the others are zeros. Whether all could be read. */
static bool read_pages(struct mt_image *im, int fd, const struct mt_mapping *m, uint8_t *to)
{
	mt_auto(mt_pagemap) struct mt_pagemap p;

	mt_pagemap_open_image(&p, im);
	for (uint64_t at = m->start; at < m->end;) {
		uint64_t start = mt_pagemap_next(&p, at, m->end);
		uint64_t end = start < m->end ? mt_pagemap_next_absent(&p, start, m->end) : start;

		at = end;
		if (start < end && mt_file_pread(fd, to + (start - m->start), end - start, start) !=
					   (ssize_t)(end - start))
			return false;
	}
	return true;
}

/* Takes the bytes of a mapping. -ENOMEM, -EFBIG, -EIO. */
static int take_bytes(struct mt_image *im, const struct mt_mapping *m)
{
	mt_auto(close) int fd = -1;
	uint64_t bytes = m->end - m->start;
	struct mt_image_apart *grown;
	uint8_t *data;
	char path[64];

	if (bytes > TAKEN_BYTES_MAX - MT_MIN(im->apart_taken, TAKEN_BYTES_MAX))
		return -EFBIG;
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)im->facts.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -EIO;
	grown = mt_alloc_grow(im->apart, &im->apart_cap, im->apart_count + 1, sizeof(*grown));
	if (!grown)
		return -ENOMEM;
	im->apart = grown;
	data = mt_alloc_zero(bytes, 1);
	if (!data || mt_arena_adopt(im->arena, data)) {
		free(data);
		return -ENOMEM;
	}
	if (!read_pages(im, fd, m, data))
		return -EIO;
	im->apart[im->apart_count++] = (struct mt_image_apart){m->start, m->end, data};
	im->apart_taken += bytes;
	return 0;
}

static int take(struct mt_image *im, struct mt_mapping *m)
{
	uint64_t bytes = m->end - m->start;
	int code;

	if (!m->in_image)
		return 0;
	code = take_bytes(im, m);
	m->in_image = !code;
	if (!code || code == -ENOMEM)
		return code;
	im->facts.unreadable_bytes += bytes;
	if (bytes != TRACKERS_BYTES || code == -EFBIG)
		im->facts.apart_bytes += bytes;
	return 0;
}

static int compare_parts(const void *va, const void *vb)
{
	const struct mt_image_apart *a = va, *b = vb;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* ---- mappings ---- */

/* Only memory of its own can be meant: what it maps of files and devices is no place of pointers.
 */
static bool is_private_memory(const struct mt_mapping *m)
{
	const uint32_t both = MT_MAPPING_READ | MT_MAPPING_WRITE;

	return m->in_image && (m->flags & both) == both && !(m->flags & MT_MAPPING_SHARED);
}

/* Of the process's mappings those of which the copy has nothing, at the front. How many. */
static size_t keep_missing(struct mt_mapping *list, size_t count, const struct mt_mapping *copy,
			   size_t copies)
{
	size_t kept = 0, c = 0;

	for (size_t i = 0; i < count; i++) {
		while (c < copies && copy[c].end <= list[i].start)
			c++;
		if (is_private_memory(&list[i]) && (c == copies || copy[c].start >= list[i].end))
			list[kept++] = list[i];
	}
	return kept;
}

/* The table has room for it. */
static int add(struct mt_image *im, struct mt_mapping *m)
{
	int code = take(im, m);

	im->mapping[im->mapping_count++] = *m;
	return code;
}

static int compare_mappings(const void *va, const void *vb)
{
	const struct mt_mapping *a = va, *b = vb;

	return a->start < b->start ? -1 : a->start > b->start;
}

/* Of these mappings, of which the copy has nothing, those that a fork leaves out (VmFlags "dc"). */
static int add_left_out(struct mt_image *im, struct mt_mapping *missing, size_t count)
{
	mt_auto(free) char *text = NULL;
	struct mt_mapping *all;
	int code;

	if (!count || read_text(im->facts.pid, "smaps", &text))
		return 0; /* it has ended */
	all = mt_arena_array(im->arena, im->mapping_count + count, sizeof(*all));
	if (!all)
		return -ENOMEM;
	memcpy(all, im->mapping, im->mapping_count * sizeof(*all));
	im->mapping = all;
	code = with_flag(im, text, " dc", missing, count, add);
	qsort(all, im->mapping_count, sizeof(*all), compare_mappings);
	return code;
}

static int find_left_out(struct mt_image *im)
{
	mt_auto(free) char *text = NULL;
	struct mt_mapping *copy = im->mapping, *list;
	size_t copies = im->mapping_count, count;
	int code;

	if (read_text(im->facts.pid, "maps", &text))
		return 0; /* it has ended */
	code = mt_image_parse_maps(im, text);
	list = im->mapping;
	count = im->mapping_count;
	im->mapping = copy;
	im->mapping_count = copies;
	return code ? code
		    : add_left_out(im, list, list ? keep_missing(list, count, copy, copies) : 0);
}

/* Those of the copy that a fork wipes (VmFlags "wf"). */
static int take_wiped(struct mt_image *im)
{
	mt_auto(free) char *text = NULL;

	if (read_text(im->read_pid, "smaps", &text))
		return 0; /* it was killed, which is told later */
	return with_flag(im, text, " wf", im->mapping, im->mapping_count, take);
}

int mt_image_take_apart(struct mt_image *im)
{
	int code = take_wiped(im);

	if (!code)
		code = find_left_out(im);
	if (im->apart_count)
		qsort(im->apart, im->apart_count, sizeof(*im->apart), compare_parts);
	return code;
}

const struct mt_image_apart *mt_image_apart_of(const struct mt_image *im, uint64_t address,
					       uint64_t *ret_next)
{
	size_t a = MT_SEARCH_UP_TO(im->apart, im->apart_count, start, address);

	*ret_next = a < im->apart_count ? im->apart[a].start : UINT64_MAX;
	return a && address < im->apart[a - 1].end ? &im->apart[a - 1] : NULL;
}
