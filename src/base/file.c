/* SPDX-License-Identifier: MIT */
/* Whole files in and out. */
#include "base/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/path.h"

enum { READ_STEP = 64 << 10 };

int mt_file_read_fd(int fd, const char *name, size_t max_bytes, char **ret_data, size_t *ret_len,
		    struct mt_err *err)
{
	mt_auto(free) char *data = NULL;
	size_t len = 0, cap = 0;
	for (;;) {
		char *grown = mt_alloc_grow(data, &cap, len + READ_STEP, 1);
		if (!grown)
			return mt_err_no_memory(err);
		data = grown;
		ssize_t n = read(fd, data + len, cap - len - 1);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return mt_err_set_errno(err, errno, "cannot read '%s'", name);
		if (!n)
			break;
		len += (size_t)n;
		if (len > max_bytes)
			return mt_err_set(err, -EFBIG,
					  "cannot read '%s': it is longer than %zu bytes", name,
					  max_bytes);
	}
	data[len] = 0;
	*ret_data = data;
	*ret_len = len;
	data = NULL;
	return 0;
}

int mt_file_read(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len,
		 struct mt_err *err)
{
	mt_auto(close) int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return mt_err_set_errno(err, errno, "cannot open '%s'", path);
	return mt_file_read_fd(fd, path, max_bytes, ret_data, ret_len, err);
}

char *mt_file_text(const char *path, size_t max_bytes)
{
	char *text;
	size_t len;

	return mt_file_read(path, max_bytes, &text, &len, NULL) ? NULL : text;
}

ssize_t mt_file_pread(int fd, void *data, size_t len, uint64_t offset)
{
	size_t done = 0;
	if (offset > INT64_MAX || len > (size_t)INT64_MAX - offset)
		return -EINVAL;
	while (done < len) {
		ssize_t n = pread(fd, (char *)data + done, len - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

int mt_file_write(int fd, const void *data, size_t len)
{
	for (size_t done = 0; done < len;) {
		ssize_t n = write(fd, (const char *)data + done, len - done);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -EIO;
		done += (size_t)n;
	}
	return 0;
}

int mt_file_pwrite(int fd, const void *data, size_t len, uint64_t offset)
{
	if (offset > INT64_MAX || len > (size_t)INT64_MAX - offset)
		return -EINVAL;
	for (size_t done = 0; done < len;) {
		ssize_t n =
			pwrite(fd, (const char *)data + done, len - done, (off_t)(offset + done));
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return -EIO;
		done += (size_t)n;
	}
	return 0;
}

/* A lease for reading is granted when there is no writer; it is given back at once. */
int mt_file_has_writer(int fd)
{
	/* who opens it in between makes the kernel signal the thread, which has that blocked */
	struct f_owner_ex self = {F_OWNER_TID, gettid()};

	if (fcntl(fd, F_SETOWN_EX, &self))
		return -errno;
	if (fcntl(fd, F_SETLEASE, F_RDLCK))
		return errno == EAGAIN ? 1 : -errno;
	return fcntl(fd, F_SETLEASE, F_UNLCK) ? -errno : 0;
}

void mt_atomic_file_close(struct mt_atomic_file *f)
{
	if (!f)
		return;
	if (f->temp) {
		unlink(f->temp);
		if (f->fd >= 0)
			close(f->fd);
	}
	free(f->temp);
	free(f->path);
	*f = (struct mt_atomic_file){.fd = -1};
}

int mt_atomic_file_open(struct mt_atomic_file *f, const char *path, mode_t mode, struct mt_err *err)
{
	static const char suffix[] = ".XXXXXX";
	size_t len = strlen(path);
	struct stat st;
	*f = (struct mt_atomic_file){.fd = -1};
	if (!stat(path, &st) && S_ISDIR(st.st_mode))
		return mt_err_set_errno(err, EISDIR, "cannot write '%s'", path);
	if (!lstat(path, &st) && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		/* a rename would put a plain file in the place of a device or pipe */
		return mt_err_set(err, -EINVAL, "cannot replace '%s': it is no regular file", path);
	f->path = mt_alloc(len + 1);
	char *temp = mt_alloc(len + sizeof(suffix));
	if (!f->path || !temp) {
		free(temp);
		mt_atomic_file_close(f);
		return mt_err_no_memory(err);
	}
	memcpy(f->path, path, len + 1);
	memcpy(temp, path, len);
	memcpy(temp + len, suffix, sizeof(suffix));
	f->fd = mkostemp(temp, O_CLOEXEC);
	if (f->fd < 0) {
		int code = errno;
		free(temp);
		mt_atomic_file_close(f);
		return mt_err_set_errno(err, code, "cannot create '%s'", path);
	}
	f->temp = temp; /* from here on close() removes it */
	if (fchmod(f->fd, mode)) {
		int code = errno;
		mt_atomic_file_close(f);
		return mt_err_set_errno(err, code, "cannot set the mode of '%s'", path);
	}
	return 0;
}

int mt_atomic_file_commit(struct mt_atomic_file *f, struct mt_err *err)
{
	int r = 0;
	int failed = close(f->fd);
	f->fd = -1;
	if (failed)
		r = mt_err_set_errno(err, errno, "cannot write '%s'", f->path);
	else if (rename(f->temp, f->path))
		r = mt_err_set_errno(err, errno, "cannot write '%s'", f->path);
	if (!r) {
		free(f->temp);
		f->temp = NULL;
	}
	mt_atomic_file_close(f);
	return r;
}

int mt_file_write_atomic(const char *path, const void *data, size_t len, mode_t mode,
			 struct mt_err *err)
{
	mt_auto(mt_atomic_file) struct mt_atomic_file f = {.fd = -1};
	int r = mt_atomic_file_open(&f, path, mode, err);
	if (r)
		return r;
	r = mt_file_write(f.fd, data, len);
	if (r)
		return mt_err_set_errno(err, r, "cannot write '%s'", path);
	return mt_atomic_file_commit(&f, err);
}
