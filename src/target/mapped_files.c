/* SPDX-License-Identifier: MIT */
/* Either the kernel is asked for the next such mapping, again and again, or its text is read. */

#include "target/mapped_files.h"

#include "base/cleanup.h"
#include "base/file.h"
#include "core/cc.h"
#include "target/smaps.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { TEXT_MAX = 1 << 30 };

/* As the kernel lays it out (Documentation/filesystems/proc.rst). */
struct query {
	uint64_t size, flags, address;
	uint64_t vma_start, vma_end, vma_flags, vma_page_bytes, vma_offset, inode;
	uint32_t device_major, device_minor, name_bytes, build_id_bytes;
	uint64_t name, build_id;
};
enum { WRITABLE = 2, SHARED = 8, THIS_OR_NEXT = 16, OF_FILES = 32 };
#define QUERY_CALL _IOWR('f', 17, struct query)

/* The next mapping from an address on. 0, -ENOENT: there is none, or another negative errno value.
 */
static int next(int fd, uint64_t address, struct query *ret, char *name, uint32_t name_bytes)
{
	*ret = (struct query){
		.size = sizeof(*ret),
		.flags = WRITABLE | SHARED | THIS_OR_NEXT | OF_FILES,
		.address = address,
		.name = (uintptr_t)name,
		.name_bytes = name_bytes,
	};
	return ioctl(fd, QUERY_CALL, ret) ? -errno : 0;
}

/* -ENOTTY: this kernel has no such call. */
static int ask(int fd, mt_mapped_each *each, void *context)
{
	char name[PATH_MAX];
	struct query q = {0};
	int code = 0;

	for (uint64_t address = 0; !code; address = q.vma_end) {
		code = next(fd, address, &q, name, sizeof(name));
		if (code == -ENAMETOOLONG) { /* nobody could open it by that name */
			*name = 0;
			code = next(fd, address, &q, NULL, 0);
		}
		if (code)
			return code == -ENOENT ? 0 : code == -EINVAL ? -ENOTTY : code;
		if (q.vma_end <= address)
			return -EIO;
		if (*name == '/')
			code = each(context, name, q.inode);
	}
	return code;
}

/* The kernel writes a newline as \012, and nothing else like that. */
static void unescape(char *name)
{
	char *to = name;

	for (const char *at = name; *at; to++) {
		bool is_newline = !strncmp(at, "\\012", 4);

		*to = is_newline ? '\n' : *at;
		at += is_newline ? 4 : 1;
	}
	*to = 0;
}

static int read_text(int fd, const char *path, mt_mapped_each *each, void *context)
{
	mt_auto(mt_smaps) struct mt_smaps s = {0};
	const uint32_t wanted = MT_MAPPING_WRITE | MT_MAPPING_SHARED;
	char *text;
	size_t len;
	int code = mt_file_read_fd(fd, path, TEXT_MAX, &text, &len, NULL);

	if (code)
		return code;
	code = mt_smaps_parse(text, len, path, &s, NULL);
	if (code) /* without a mapping: a kernel thread, or it has ended */
		return code == -EINVAL ? 0 : code;
	for (size_t i = 0; !code && i < s.count; i++) {
		const struct mt_mapping *m = &s.mapping[i].m;

		if ((m->flags & wanted) != wanted || *m->name != '/')
			continue;
		unescape((char *)m->name); /* it lies in s.text, which is ours */
		code = each(context, m->name, m->inode);
	}
	return code;
}

int mt_mapped_files(pid_t pid, enum mt_mapped_way way, mt_mapped_each *each, void *context)
{
	mt_auto(close) int fd = -1;
	char path[64];
	int code = -ENOTTY;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (way == MT_MAPPED_BEST)
		code = ask(fd, each, context);
	return code == -ENOTTY ? read_text(fd, path, each, context) : code;
}
