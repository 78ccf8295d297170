/* SPDX-License-Identifier: MIT */
/* /proc/PID/fd: links with names; /proc/PID/fdinfo and mountinfo say on which kind of mount. */

#include "target/descriptors.h"

#include "base/file.h"
#include "base/lines.h"
#include "core/cc.h"
#include "target/java.h"
#include "target/memory.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { LOOKED_MAX = 65536, MOUNTS_MAX = 64 << 20, INFO_MAX = 65536, LINK_MAX = 4096 };

struct look {
	pid_t pid;
	int fds; /* descriptor of /proc/PID/fd */
	struct mt_descriptors *d;
	struct mt_map tmpfs;    /* mounts */
	struct mt_strings seen; /* files: several descriptors may be of one */
};

uint64_t mt_descriptors_mount(const char *text)
{
	const char *at = strstr(text, "mnt_id:");

	return at ? strtoull(at + strlen("mnt_id:"), NULL, 10) : 0;
}

/* "36 35 98:0 /root /mount options - tmpfs source options" */
int mt_descriptors_tmpfs(const char *text, struct mt_map *mounts)
{
	for (const char *line = text; *line; line = mt_line_behind(line)) {
		size_t len = strcspn(line, "\n");
		const char *type = memmem(line, len, " - ", 3);
		uint64_t number = strtoull(line, NULL, 10);

		if (type && (!strncmp(type + 3, "tmpfs ", 6) || !strncmp(type + 3, "ramfs ", 6)) &&
		    mt_map_set(mounts, number, 1))
			return -ENOMEM;
	}
	return 0;
}

uint64_t mt_limits_parse(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; *line; line = mt_line_behind(line)) {
		char *end;
		uint64_t number;

		if (strncmp(line, name, len) != 0 || line[len] != ' ')
			continue;
		line += len + strspn(line + len, " ");
		number = strtoull(line, &end, 10);
		return end == line ? MT_MEMORY_UNKNOWN : number;
	}
	return MT_MEMORY_UNKNOWN;
}

static int read_mounts(struct look *l)
{
	mt_auto(free) char *text = NULL;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mountinfo", (int)l->pid);
	text = mt_file_text(path, MOUNTS_MAX);
	/* without it only what its name tells is found */
	return text ? mt_descriptors_tmpfs(text, &l->tmpfs) : 0;
}

static bool is_on_tmpfs(const struct look *l, const char *fd)
{
	mt_auto(free) char *text = NULL;
	char path[300];

	if (!l->tmpfs.count)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/fdinfo/%s", (int)l->pid, fd);
	text = mt_file_text(path, INFO_MAX);
	return text && mt_map_get(&l->tmpfs, mt_descriptors_mount(text), NULL);
}

/* Whether a name is of memory that no mount that one can see has. */
static bool is_memory_name(const char *name)
{
	return !strncmp(name, "/memfd:", 7) || !strncmp(name, "/SYSV", 5) ||
	       !strcmp(name, "/dev/zero (deleted)");
}

/* The file behind a descriptor, which is one of shared memory. */
static int add_buffer(struct look *l, const char *fd, const char *name)
{
	struct mt_descriptors *d = l->d;
	char key[64];
	uint32_t number, known = l->seen.count;
	struct stat st;
	uint64_t bytes;

	if (fstatat(l->fds, fd, &st, 0) || !S_ISREG(st.st_mode))
		return 0;
	snprintf(key, sizeof(key), "%" PRIx64 ":%" PRIx64, (uint64_t)st.st_dev,
		 (uint64_t)st.st_ino);
	if (mt_strings_intern(&l->seen, key, strlen(key), &number))
		return -ENOMEM;
	if (number <= known)
		return 0;
	bytes = (uint64_t)st.st_blocks * 512;
	d->buffers++;
	d->buffer_bytes += bytes;
	if (bytes > d->widest_bytes) {
		d->widest_bytes = bytes;
		snprintf(d->widest, sizeof(d->widest), "%.*s", (int)sizeof(d->widest) - 1, name);
	}
	return 0;
}

static int add(struct look *l, const char *fd)
{
	char name[LINK_MAX];
	ssize_t len;

	if (++l->d->count > LOOKED_MAX) {
		l->d->left_out++;
		return 0;
	}
	len = readlinkat(l->fds, fd, name, sizeof(name) - 1);
	if (len <= 0 || *name != '/')
		return 0;
	name[len] = 0;
	if (mt_java_is_heap_file(name)) /* it is mapped, as a whole, and counts there */
		return 0;
	if (!is_memory_name(name) && !is_on_tmpfs(l, fd))
		return 0;
	return add_buffer(l, fd, name);
}

int mt_descriptors_read(pid_t pid, struct mt_descriptors *ret)
{
	struct look l = {.pid = pid, .d = ret};
	char path[64];
	DIR *d;
	int code;

	*ret = (struct mt_descriptors){0};
	snprintf(path, sizeof(path), "/proc/%d/fd", (int)pid);
	d = opendir(path);
	if (!d)
		return errno == ENOENT ? -ESRCH : errno == ENOMEM ? -ENOMEM : -EACCES;
	l.fds = dirfd(d);
	code = read_mounts(&l);
	for (struct dirent *e; !code && (e = readdir(d));)
		if (isdigit((unsigned char)e->d_name[0]))
			code = add(&l, e->d_name);
	closedir(d);
	mt_map_done(&l.tmpfs);
	mt_strings_done(&l.seen);
	return code;
}
