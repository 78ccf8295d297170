/* SPDX-License-Identifier: MIT */
/* Making, finding and removing private directories. */

#include "record/statedir.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/path.h"
#include "base/units.h"
#include "core/cc.h"
#include "wire/verify.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>

#define OUTPUT_NAME "output"
enum { BASES = 3, PATTERN_MAX = 1 << 16, FRESH_S = 30 };

static const char *base_dir(int at)
{
	const char *tmp = getenv("TMPDIR");

	switch (at) {
	case 0:
		return "/dev/shm";
	case 1:
		return tmp && *tmp == '/' ? tmp : "/tmp";
	default:
		return "/tmp";
	}
}

/* 0, or why nothing can be recorded below base. */
static int check_base(const char *base, struct mt_err *err)
{
	struct statvfs fs;
	char room[MT_UNITS_TEXT_MAX];

	if (access(base, W_OK | X_OK))
		return mt_err_set_errno(err, errno, "cannot write to '%s'", base);
	if (statvfs(base, &fs))
		return mt_err_set_errno(err, errno, "cannot look at '%s'", base);
	if ((uint64_t)fs.f_bavail * fs.f_frsize < MT_STATEDIR_NEED_BYTES)
		return mt_err_set(err, -ENOSPC, "only %s are free in '%s'",
				  mt_units_size((uint64_t)fs.f_bavail * fs.f_frsize, room), base);
	return 0;
}

static int create_in(const char *base, char **ret_path, struct mt_err *err)
{
	char name[64];
	char *path;
	int code = check_base(base, err);

	if (code)
		return code;
	snprintf(name, sizeof(name), "memtrack-%u-XXXXXX", (unsigned)getuid());
	path = mt_path_join(base, name);
	if (!path)
		return mt_err_no_memory(err);
	if (!mkdtemp(path)) {
		code = mt_err_set_errno(err, errno, "cannot make a directory in '%s'", base);
		free(path);
		return code;
	}
	*ret_path = path;
	return 0;
}

static int write_output_file(struct mt_statedir *dir, const char *pattern, struct mt_err *err)
{
	mt_auto(free) char *path = mt_path_join(dir->path, OUTPUT_NAME);
	int code;

	if (!path)
		return mt_err_no_memory(err);
	dir->lock_fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (dir->lock_fd < 0)
		return mt_err_set_errno(err, errno, "cannot create '%s'", path);
	code = flock(dir->lock_fd, LOCK_EX | LOCK_NB) ? -errno : 0;
	if (!code)
		code = mt_file_write(dir->lock_fd, pattern, strlen(pattern));
	return code ? mt_err_set_errno(err, code, "cannot write '%s'", path) : 0;
}

int mt_statedir_create(const char *pattern, struct mt_statedir *ret_dir, struct mt_err *err)
{
	struct mt_statedir dir = {.lock_fd = -1};
	struct mt_err first = {0};
	int code = -ENOENT;

	for (int i = 0; i < BASES && code; i++) {
		code = create_in(base_dir(i), &dir.path, err);
		if (code && !i && err)
			first = *err;
	}
	if (code)
		return code;
	if (first.code) {
		dir.avoided = strdup(first.text);
		mt_err_clear(err);
	}
	code = write_output_file(&dir, pattern, err);
	if (code) {
		mt_statedir_remove(&dir);
		return code;
	}
	*ret_dir = dir;
	return 0;
}

void mt_statedir_done(struct mt_statedir *dir)
{
	if (!dir)
		return;
	if (dir->lock_fd >= 0)
		close(dir->lock_fd);
	free(dir->path);
	free(dir->avoided);
	*dir = (struct mt_statedir){.lock_fd = -1};
}

/* What the launcher itself put there. */
static const char *const own_files[] = {OUTPUT_NAME, MT_VERIFY_NAME};

static bool is_own_file(const char *name)
{
	for (size_t i = 0; i < MT_ARRAY_LEN(own_files); i++)
		if (!strcmp(name, own_files[i]))
			return true;
	return false;
}

static bool is_empty_but_own(const char *path)
{
	DIR *d = opendir(path);
	bool is_empty = d != NULL;

	for (struct dirent *e; d && (e = readdir(d));)
		if (strcmp(e->d_name, ".") && strcmp(e->d_name, "..") && !is_own_file(e->d_name))
			is_empty = false;
	if (d)
		closedir(d);
	return is_empty;
}

void mt_statedir_remove(struct mt_statedir *dir)
{
	if (dir && dir->path && is_empty_but_own(dir->path)) {
		for (size_t i = 0; i < MT_ARRAY_LEN(own_files); i++) {
			mt_auto(free) char *path = mt_path_join(dir->path, own_files[i]);

			if (path)
				unlink(path);
		}
		/* fails when a process made a file meanwhile: then the directory stays for it */
		(void)!rmdir(dir->path);
	}
	mt_statedir_done(dir);
}

/* Ours alone: nobody else could have put anything there. */
static bool is_private(const char *path)
{
	struct stat st;

	return !lstat(path, &st) && S_ISDIR(st.st_mode) && st.st_uid == getuid() &&
	       !(st.st_mode & (S_IRWXG | S_IRWXO));
}

/* Paths of the directories below all bases whose names say that they are wanted. */
struct found {
	char **path; /* owned, with what it points to */
	size_t count, capacity;
};

static void found_done(struct found *f)
{
	for (size_t i = 0; i < f->count; i++)
		free(f->path[i]);
	free(f->path);
}
MT_AUTO_DEFINE_INPLACE(found, struct found, found_done)

/* uid, launcher: NULL for any. */
static bool is_wanted(const char *name, const unsigned *uid, const pid_t *launcher)
{
	unsigned named_uid, named_launcher;
	int used = 0;

	if (sscanf(name, "memtrack-%u-%n", &named_uid, &used) != 1 || !used)
		return false;
	if (uid && named_uid != *uid)
		return false;
	name += used;
	used = 0;
	return !launcher || (sscanf(name, "%u-%n", &named_launcher, &used) == 1 && used &&
			     named_launcher == (unsigned)*launcher);
}

static int add_found(struct found *f, char *path)
{
	char **grown = mt_alloc_grow(f->path, &f->capacity, f->count + 1, sizeof(*grown));

	if (grown)
		f->path = grown;
	if (!grown || !path) {
		free(path);
		return -ENOMEM;
	}
	f->path[f->count++] = path;
	return 0;
}

static int compare_paths(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* One system call for hundreds of names: looking at names is cheap, opening directories is not. */
static int find_in(const char *base, const unsigned *uid, const pid_t *launcher, struct found *f)
{
	size_t before = f->count;
	DIR *d = opendir(base);
	int code = 0;

	for (struct dirent *e; d && !code && (e = readdir(d));)
		if (is_wanted(e->d_name, uid, launcher))
			code = add_found(f, mt_path_join(base, e->d_name));
	if (d)
		closedir(d);
	if (f->count > before)
		qsort(f->path + before, f->count - before, sizeof(*f->path), compare_paths);
	return code;
}

/* The base of each place, those that are the same as another only once; NULL: no more. */
static const char *next_base(int *at)
{
	while (*at < BASES) {
		int i = (*at)++;

		if (i + 1 < BASES || strcmp(base_dir(i), base_dir(i - 1)))
			return base_dir(i);
	}
	return NULL;
}

static int find_all(const unsigned *uid, const pid_t *launcher, struct found *f)
{
	const char *base;
	int code = 0, at = 0;

	while (!code && (base = next_base(&at)))
		code = find_in(base, uid, launcher, f);
	return code;
}

int mt_statedir_each(size_t first, int (*visit)(void *context, const char *path), void *context)
{
	mt_auto(found) struct found found = {0};
	unsigned uid = getuid();
	int ret = find_all(&uid, NULL, &found);

	for (size_t i = 0; i < found.count && !ret; i++) {
		const char *path = found.path[(first % found.count + i) % found.count];

		if (is_private(path))
			ret = visit(context, path);
	}
	return ret;
}

/* Opens a directory that belongs to the user its name says, and to nobody else. */
static int open_private(const char *path)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	unsigned uid = 0;
	struct stat st;

	if (fd < 0)
		return -errno;
	if (sscanf(mt_path_base(path), "memtrack-%u-", &uid) == 1 && !fstat(fd, &st) &&
	    st.st_uid == uid && !(st.st_mode & (S_IRWXG | S_IRWXO)))
		return fd;
	close(fd);
	return -EPERM;
}

int mt_statedir_each_of(pid_t launcher, int (*visit)(void *context, const char *path, int fd),
			void *context)
{
	mt_auto(found) struct found found = {0};
	int ret = find_all(NULL, &launcher, &found);

	for (size_t i = 0; i < found.count && !ret; i++) {
		mt_auto(close) int fd = open_private(found.path[i]);

		if (fd >= 0)
			ret = visit(context, found.path[i], fd);
	}
	return ret;
}

/*
 * Whether its maker may just be starting: nothing lies in it yet but perhaps an `output` without
 * its text, which is written under the lock.
 */
static bool is_being_made(const char *path, const char *output)
{
	struct stat st;
	bool is_blank = lstat(output, &st) ? !lstat(path, &st) : !st.st_size;

	return is_blank && is_empty_but_own(path) && time(NULL) - st.st_mtime < FRESH_S;
}

bool mt_statedir_is_attended(const char *path)
{
	mt_auto(free) char *name = mt_path_join(path, OUTPUT_NAME);
	mt_auto(close) int fd =
		name ? open(name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK) : -1;
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	/* the maker of one that is being made must find the lock free */
	return is_being_made(path, name) || (flock(fd, LOCK_SH | LOCK_NB) && errno == EWOULDBLOCK);
}

int mt_statedir_adopt(const char *path, struct mt_statedir *ret_dir, char **ret_pattern)
{
	mt_auto(mt_statedir) struct mt_statedir dir = {.lock_fd = -1};
	mt_auto(free) char *name = mt_path_join(path, OUTPUT_NAME);
	struct stat st;
	size_t len;
	int code;

	dir.path = strdup(path);
	if (!dir.path || !name)
		return -ENOMEM;
	if (is_being_made(path, name))
		return -EAGAIN;
	/* not to wait for the other end of a pipe that lies there */
	dir.lock_fd = open(name, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0600);
	if (dir.lock_fd < 0 || fstat(dir.lock_fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if (flock(dir.lock_fd, LOCK_EX | LOCK_NB))
		return errno == EWOULDBLOCK ? -EAGAIN : -errno;
	code = mt_file_read_fd(dir.lock_fd, name, PATTERN_MAX, ret_pattern, &len, NULL);
	if (code)
		return code;
	*ret_dir = dir;
	dir = (struct mt_statedir){.lock_fd = -1};
	return 0;
}
