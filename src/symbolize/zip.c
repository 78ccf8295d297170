/* SPDX-License-Identifier: MIT */
/*
 * The directory at the end of a zip file, without its 64-bit extension, which packages never need.
 * Everything is copied out with bounds; the file may hold anything.
 */
#include "symbolize/zip.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "core/cc.h"

enum {
	END_BYTES = 22,
	COMMENT_BYTES_MAX = 65535,
	ENTRY_BYTES = 46,
	LOCAL_BYTES = 30,
	DIRECTORY_BYTES_MAX = 64 << 20,
	METHOD_STORED = 0,
};

#define END_MARK 0x06054b50u
#define ENTRY_MARK 0x02014b50u
#define LOCAL_MARK 0x04034b50u

static uint32_t get16(const uint8_t *p)
{
	return p[0] | (uint32_t)p[1] << 8;
}

static uint32_t get32(const uint8_t *p)
{
	return get16(p) | get16(p + 2) << 16;
}

/* Reads exactly len bytes. */
static int read_at(int fd, void *to, size_t len, uint64_t offset)
{
	ssize_t got = mt_file_pread(fd, to, len, offset);

	return got < 0 ? (int)got : (size_t)got == len ? 0 : -EBADMSG;
}

/* The directory: heap, *ret_len bytes. */
static int read_directory(int fd, uint64_t file_bytes, uint8_t **ret_data, size_t *ret_len)
{
	uint64_t tail = MT_MIN(file_bytes, (uint64_t)END_BYTES + COMMENT_BYTES_MAX);
	mt_auto(free) uint8_t *end = mt_alloc(tail);
	uint64_t at, len, begin;
	uint8_t *data;
	int r;

	if (!end)
		return -ENOMEM;
	r = tail < END_BYTES ? -EBADMSG : read_at(fd, end, tail, file_bytes - tail);
	if (r)
		return r;
	for (at = tail - END_BYTES; get32(end + at) != END_MARK; at--)
		if (!at)
			return -EBADMSG;
	len = get32(end + at + 12);
	begin = get32(end + at + 16);
	if (len > DIRECTORY_BYTES_MAX || begin > file_bytes || len > file_bytes - begin)
		return -EBADMSG;
	data = mt_alloc(len);
	if (!data)
		return -ENOMEM;
	r = read_at(fd, data, len, begin);
	if (r) {
		free(data);
		return r;
	}
	*ret_data = data;
	*ret_len = len;
	return 0;
}

/* Where the contents of an entry begin; 0: it cannot be told. */
static uint64_t find_contents(int fd, const uint8_t *entry)
{
	uint64_t at = get32(entry + 42);
	uint8_t local[LOCAL_BYTES];

	if (read_at(fd, local, sizeof(local), at) || get32(local) != LOCAL_MARK)
		return 0;
	return at + LOCAL_BYTES + get16(local + 26) + get16(local + 28);
}

static int give(const uint8_t *entry, uint64_t contents, struct mt_zip_member *ret_member)
{
	uint32_t len = get16(entry + 28);
	char *name = mt_alloc(len + 1u);

	if (!name)
		return -ENOMEM;
	memcpy(name, entry + ENTRY_BYTES, len);
	name[len] = 0;
	*ret_member = (struct mt_zip_member){name, contents, get32(entry + 20)};
	return 0;
}

static int find(int fd, const uint8_t *data, size_t len, uint64_t offset,
		struct mt_zip_member *ret_member)
{
	for (size_t at = 0; len - at >= ENTRY_BYTES;) {
		const uint8_t *entry = data + at;
		size_t bytes =
			ENTRY_BYTES + get16(entry + 28) + get16(entry + 30) + get16(entry + 32);
		uint64_t contents;

		if (get32(entry) != ENTRY_MARK || bytes > len - at)
			return -EBADMSG;
		at += bytes;
		/* a local header lies before its contents: most entries need no look at theirs */
		if (get16(entry + 10) != METHOD_STORED || get32(entry + 42) > offset)
			continue;
		contents = find_contents(fd, entry);
		if (contents && offset >= contents && offset - contents < get32(entry + 20))
			return give(entry, contents, ret_member);
	}
	return -ENOENT;
}

int mt_zip_find(const char *path, uint64_t offset, struct mt_zip_member *ret_member)
{
	mt_auto(close) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	mt_auto(free) uint8_t *data = NULL;
	struct stat st;
	size_t len = 0;
	int r;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EBADMSG;
	r = read_directory(fd, (uint64_t)st.st_size, &data, &len);
	return r ? r : find(fd, data, len, offset, ret_member);
}
