/* SPDX-License-Identifier: MIT */
/* Files of the system: lock, read, replace, and who may change them. */

#include "record/conf_file.h"

#include "base/file.h"
#include "base/path.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>

enum { LOCK_TRIES = 250, LOCK_PAUSE_NS = 20000000 };

int mt_conf_lock(const char *folder, struct mt_conf_lock *ret_lock, struct mt_err *err)
{
	const struct timespec pause = {0, LOCK_PAUSE_NS};
	int fd, code = mt_path_make_dirs(folder, 0755, err);

	if (code)
		return code;
	fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return mt_err_set_errno(err, errno, "cannot open '%s'", folder);
	for (int i = 0; i < LOCK_TRIES; i++) {
		if (!flock(fd, LOCK_EX | LOCK_NB)) {
			ret_lock->fd = fd;
			return 0;
		}
		nanosleep(&pause, NULL);
	}
	close(fd);
	return mt_err_set(err, -EBUSY, "somebody else is changing the files of '%s': try again",
			  folder);
}

void mt_conf_unlock(struct mt_conf_lock *lock)
{
	if (lock && lock->fd >= 0)
		close(lock->fd);
	if (lock)
		lock->fd = -1;
}

void mt_conf_file_done(struct mt_conf_file *f)
{
	if (!f)
		return;
	free(f->text);
	*f = (struct mt_conf_file){0};
}

int mt_conf_read(const char *path, size_t max_bytes, struct mt_conf_file *ret_file,
		 struct mt_err *err)
{
	struct mt_conf_file f = {0};
	struct stat st;
	mt_auto(close) int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int code;

	if (fd < 0 && (errno == ENOENT || errno == ENOTDIR)) {
		*ret_file = f;
		return 0;
	}
	if (fd < 0 && errno == ELOOP)
		return mt_err_set(err, -ELOOP,
				  "'%s' is a symbolic link, which the tracker does "
				  "not follow: make it a plain file",
				  path);
	if (fd < 0 || fstat(fd, &st))
		return mt_err_set_errno(err, errno, "cannot read '%s'", path);
	if (!S_ISREG(st.st_mode))
		return mt_err_set(err, -EINVAL, "'%s' is no plain file", path);
	code = mt_file_read_fd(fd, path, max_bytes, &f.text, &f.len, err);
	if (code)
		return code;
	f.mode = st.st_mode & 07777;
	f.owner = st.st_uid;
	f.group = st.st_gid;
	*ret_file = f;
	return 0;
}

static int flush_folder_of(const char *path)
{
	mt_auto(free) char *folder = mt_path_dir(path);
	mt_auto(close) int fd = folder ? open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	return fd < 0 || fsync(fd) ? -errno : 0;
}

int mt_conf_replace(const char *path, const struct mt_conf_file *old, const char *text, size_t len,
		    struct mt_err *err)
{
	mt_auto(mt_atomic_file) struct mt_atomic_file f = {.fd = -1};
	int code = mt_atomic_file_open(&f, path, old->text ? old->mode : 0644, err);

	if (code)
		return code;
	/* the mode again: a new owner takes set-uid bits away, which have no business here anyway
	 */
	if (old->text && (fchown(f.fd, old->owner, old->group) || fchmod(f.fd, old->mode)))
		return mt_err_set_errno(err, errno, "cannot keep the owner of '%s'", path);
	code = mt_file_write(f.fd, text, len);
	if (!code && fsync(f.fd))
		code = -errno;
	if (code)
		return mt_err_set_errno(err, code, "cannot write '%s'", path);
	code = mt_atomic_file_commit(&f, err);
	if (!code)
		(void)!flush_folder_of(path); /* the name is there; how soon it lasts is not ours */
	return code;
}

int mt_conf_remove(const char *path, struct mt_err *err)
{
	if (unlink(path) && errno != ENOENT)
		return mt_err_set_errno(err, errno, "cannot remove '%s'", path);
	(void)!flush_folder_of(path);
	return 0;
}

static int check_owner(const char *path, const struct stat *st, bool or_us, struct mt_err *err)
{
	if (st->st_uid && !(or_us && st->st_uid == geteuid()))
		return mt_err_set(err, -EPERM, "'%s' does not belong to root", path);
	if ((st->st_mode & (S_IWGRP | S_IWOTH)) &&
	    !(S_ISDIR(st->st_mode) && (st->st_mode & S_ISVTX)))
		return mt_err_set(err, -EPERM, "others may write to '%s'", path);
	return 0;
}

/* A folder on the way: only root changes it, everybody may pass. */
static int check_folder(const char *path, bool or_us, struct mt_err *err)
{
	struct stat st;
	int code;

	if (stat(path, &st))
		return mt_err_set_errno(err, errno, "cannot look at '%s'", path);
	code = check_owner(path, &st, or_us, err);
	if (!code && !(st.st_mode & S_IXOTH))
		code = mt_err_set(err, -EACCES, "'%s' cannot be entered by everybody", path);
	return code;
}

int mt_conf_check_safe(const char *path, bool or_us, struct mt_err *err)
{
	mt_auto(free) char *real = realpath(path, NULL);
	struct stat st;
	int code;

	if (!real || stat(real, &st))
		return mt_err_set_errno(err, errno, "cannot use '%s'", path);
	if (!S_ISREG(st.st_mode))
		return mt_err_set(err, -EINVAL, "'%s' is no plain file", path);
	code = check_owner(real, &st, or_us, err);
	if (!code && !(st.st_mode & S_IROTH))
		code = mt_err_set(err, -EACCES, "'%s' cannot be read by everybody", path);
	for (char *slash = strrchr(real, '/'); !code && slash; slash = strrchr(real, '/')) {
		*slash = 0;
		code = check_folder(*real ? real : "/", or_us, err);
	}
	return code;
}
