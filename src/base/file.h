/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_FILE_H
#define MT_BASE_FILE_H

/* Whole files in and out. Interrupted and short transfers are continued. */

#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "core/cc.h"

/*
 * Reads all of a file (also of /proc, whose sizes are 0, and pipes) into a heap block with a NUL
 * behind it; the caller frees it with free(). -EFBIG when it is longer than max_bytes, -EISDIR for
 * a directory, else the errno of the failed call.
 */
int mt_file_read(const char *path, size_t max_bytes, char **ret_data, size_t *ret_len,
		 struct mt_err *err);

/* The text of a small file, mostly of /proc; NULL when it cannot be read, or is longer. */
char *mt_file_text(const char *path, size_t max_bytes);

/* As mt_file_read() from an open descriptor; `name` is for messages. Reads from the present
 * position. */
int mt_file_read_fd(int fd, const char *name, size_t max_bytes, char **ret_data, size_t *ret_len,
		    struct mt_err *err);

/* Reads up to len bytes at offset: the count (short only at the end of the file) or negative errno.
 */
ssize_t mt_file_pread(int fd, void *data, size_t len, uint64_t offset);

/* Writes all; 0 or negative errno. */
int mt_file_write(int fd, const void *data, size_t len);
int mt_file_pwrite(int fd, const void *data, size_t len, uint64_t offset);

/*
 * Whether any process has the file open for writing, or mapped from such a descriptor. fd is open
 * for reading only. 0 or 1, or a negative errno value when the kernel does not say (another's file,
 * a file system without leases). The calling thread must have SIGIO blocked.
 */
int mt_file_has_writer(int fd);

/*
 * A file that appears at `path` complete or not at all: written under a temporary name in the same
 * directory, then renamed. `fd` is open for writing. All-zero with fd -1 means "closed".
 */
struct mt_atomic_file {
	int fd;
	char *path, *temp; /* owned */
};

/* Creates the temporary file with exactly `mode`. 0 or negative errno with *err. */
int mt_atomic_file_open(struct mt_atomic_file *f, const char *path, mode_t mode,
			struct mt_err *err);

/* Puts the file in place (replacing an older one) and closes f. On failure it is removed. */
int mt_atomic_file_commit(struct mt_atomic_file *f, struct mt_err *err);

/* Drops the file if it was not committed. NULL and closed objects are allowed. */
void mt_atomic_file_close(struct mt_atomic_file *f);
MT_AUTO_DEFINE_INPLACE(mt_atomic_file, struct mt_atomic_file, mt_atomic_file_close)

/* Writes a whole file atomically. 0 or negative errno with *err. */
int mt_file_write_atomic(const char *path, const void *data, size_t len, mode_t mode,
			 struct mt_err *err);

#endif
