/* SPDX-License-Identifier: MIT */
/*
 * Pages that are not there are asked for again at each read, since the process may touch them at
 * any time. That a page is there is remembered: if it went meanwhile, reading only brings it back.
 */

#include "target/image_absent.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "core/cc.h"
#include "target/image_internal.h"
#include "target/pagemap.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

enum { FILES = 8, PAGES_AT_ONCE = 256 };

/* A file that was looked for. */
struct absent_file {
	uint64_t inode; /* 0: none */
	uint32_t device;
	int fd; /* -1: it could not be opened */
};

struct mt_image_absent {
	int pagemap_fd;
	uint64_t there_start, there_end; /* pages that were there */
	struct absent_file file[FILES];
	unsigned next_file; /* whose place the next one takes */
};

struct mt_image_absent *mt_image_absent_new(pid_t pid)
{
	struct mt_image_absent *a = mt_alloc_zero(1, sizeof(*a));
	char path[64];

	if (!a)
		return NULL;
	for (size_t i = 0; i < FILES; i++)
		a->file[i].fd = -1;
	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)pid);
	a->pagemap_fd = open(path, O_RDONLY | O_CLOEXEC);
	if (a->pagemap_fd >= 0)
		return a;
	free(a);
	return NULL;
}

void mt_image_absent_free(struct mt_image_absent *a)
{
	if (!a)
		return;
	close(a->pagemap_fd);
	for (size_t i = 0; i < FILES; i++)
		if (a->file[i].fd >= 0)
			close(a->file[i].fd);
	free(a);
}

/* ---- files ---- */

/*
 * The file of a mapping by one of its paths, or -1. Through map_files it may have another device
 * than the mapping says: file systems with volumes inside (btrfs) have a number for each.
 */
static int open_same(const char *path, const struct mt_mapping *m, bool is_any_device)
{
	mt_auto(close) int fd = -1;
	struct stat st;
	int found;

	/* the path is as somebody else says: to open a device may do something */
	if (stat(path, &st) || !S_ISREG(st.st_mode))
		return -1;
	fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_ino != m->inode)
		return -1;
	if (!is_any_device &&
	    m->device != ((uint32_t)major(st.st_dev) << 20 | (uint32_t)minor(st.st_dev)))
		return -1;
	found = fd;
	fd = -1;
	return found;
}

static int open_file(const struct mt_image *im, const struct mt_mapping *m)
{
	mt_auto(mt_buf) struct mt_buf path = {0};
	char link[96];
	int fd = -1;

	if (m->name[0] == '/' && !mt_buf_printf(&path, "%s%s", im->root, m->name))
		fd = open_same(mt_buf_text(&path), m, false);
	if (fd >= 0)
		return fd;
	/* also a file that was deleted or replaced; the kernel lets only root do this */
	snprintf(link, sizeof(link), "/proc/%d/map_files/%" PRIx64 "-%" PRIx64, (int)im->read_pid,
		 m->start, m->end);
	return open_same(link, m, true);
}

/* Of the files that were opened last. -1: it cannot be. */
static int file_of(struct mt_image_absent *a, const struct mt_image *im, const struct mt_mapping *m)
{
	struct absent_file *f;

	for (size_t i = 0; i < FILES; i++)
		if (a->file[i].inode == m->inode && a->file[i].device == m->device)
			return a->file[i].fd;
	f = &a->file[a->next_file++ % FILES];
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct absent_file){m->inode, m->device, open_file(im, m)};
	return f->fd;
}

static size_t read_file(int fd, const struct mt_image *im, uint64_t offset, void *to, size_t bytes)
{
	ssize_t n = fd >= 0 ? mt_file_pread(fd, to, bytes, offset) : -1;
	size_t all;

	if (n <= 0) /* a page wholly behind the end is none: the process cannot read it either */
		return 0;
	all = (size_t)MT_MIN((uint64_t)bytes,
			     MT_ALIGN_UP(offset + (uint64_t)n, im->facts.page_bytes) - offset);
	memset((char *)to + n, 0, all - (size_t)n);
	return all;
}

/* ---- pages ---- */

/* Memory without a file that begins as zeros; the kernel's own mappings do not. */
static bool is_anonymous(const struct mt_mapping *m)
{
	return !m->inode && (!*m->name || !strcmp(m->name, "[heap]") ||
			     !strncmp(m->name, "[stack", 6) || !strncmp(m->name, "[anon:", 6));
}

/* Where the pages from that of `address` on end which are all there, or all not; 0: not known. */
static uint64_t stretch_end(const struct mt_image_absent *a, const struct mt_image *im,
			    uint64_t address, uint64_t end, bool *ret_is_there)
{
	bool is_there[PAGES_AT_ONCE];
	uint64_t page_bytes = im->facts.page_bytes, page = address / page_bytes;
	uint64_t pages = MT_MIN((end - 1) / page_bytes + 1 - page, (uint64_t)PAGES_AT_ONCE);
	size_t known = mt_pagemap_now(a->pagemap_fd, page, is_there, (size_t)pages), same = 1;

	if (!known)
		return 0;
	while (same < known && is_there[same] == is_there[0])
		same++;
	*ret_is_there = is_there[0];
	return MT_MIN((page + same) * page_bytes, end);
}

size_t mt_image_absent_read(struct mt_image_absent *a, const struct mt_image *im, uint64_t address,
			    void *to, size_t *bytes)
{
	const struct mt_mapping *m = mt_image_mapping_of(im, address);
	bool is_there = true;
	uint64_t end;

	if (!m || !m->in_image)
		return 0;
	end = a->there_end;
	if (address < a->there_start || address >= end)
		end = stretch_end(a, im, address, m->end, &is_there);
	if (!end)
		return 0;
	*bytes = (size_t)MT_MIN((uint64_t)*bytes, end - address);
	if (is_there) {
		a->there_start = address;
		a->there_end = end;
		return 0;
	}
	if (m->inode)
		return read_file(file_of(a, im, m), im, m->offset + (address - m->start), to,
				 *bytes);
	if (!is_anonymous(m))
		return 0;
	memset(to, 0, *bytes);
	return *bytes;
}
