/* SPDX-License-Identifier: MIT */
/* Path names. */
#include "base/path.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/cleanup.h"

const char *mt_path_base(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

static char *copy_bytes(const char *text, size_t len)
{
	char *copy = mt_alloc(len + 1);
	if (!copy)
		return NULL;
	memcpy(copy, text, len);
	copy[len] = 0;
	return copy;
}

char *mt_path_dir(const char *path)
{
	const char *slash = strrchr(path, '/');
	if (!slash)
		return copy_bytes(".", 1);
	while (slash > path && slash[-1] == '/')
		slash--;
	return copy_bytes(path, slash == path ? 1 : (size_t)(slash - path));
}

char *mt_path_join(const char *dir, const char *name)
{
	if (!*dir || *name == '/')
		return copy_bytes(name, strlen(name));
	size_t dir_len = strlen(dir), name_len = strlen(name);
	int slash = dir[dir_len - 1] != '/';
	char *path = mt_alloc(dir_len + (size_t)slash + name_len + 1);
	if (!path)
		return NULL;
	memcpy(path, dir, dir_len);
	if (slash)
		path[dir_len] = '/';
	memcpy(path + dir_len + slash, name, name_len + 1);
	return path;
}

static int make_dir(const char *path, mode_t mode, struct mt_err *err)
{
	struct stat st;
	if (!mkdir(path, mode))
		return 0;
	int code = errno;
	if (code != EEXIST)
		return mt_err_set_errno(err, code, "cannot create directory '%s'", path);
	if (!stat(path, &st) && !S_ISDIR(st.st_mode))
		return mt_err_set_errno(err, ENOTDIR, "cannot create directory '%s'", path);
	return 0;
}

int mt_path_make_dirs(const char *path, mode_t mode, struct mt_err *err)
{
	mt_auto(free) char *part = copy_bytes(path, strlen(path));
	if (!part)
		return mt_err_no_memory(err);
	for (char *s = part; *s; s++) {
		if (*s != '/' || s == part || s[-1] == '/')
			continue;
		*s = 0;
		int r = make_dir(part, mode, err);
		if (r)
			return r;
		*s = '/';
	}
	return make_dir(part, mode, err);
}
