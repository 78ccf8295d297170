/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_CONF_FILE_H
#define MT_RECORD_CONF_FILE_H

/*
 * Files of the system that are changed: read, and replaced as a whole, so that at any moment, also
 * after a crash of the machine, there is either the old text or the new one.
 */

#include <stdbool.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

/* A lock that all editors take: a folder's. All-zero with fd -1: none. */
struct mt_conf_lock {
	int fd;
};

/*
 * Makes the folder (and missing parents, 0755) and locks it. Waits for another editor for 5 s, then
 * -EBUSY. 0 or a negative errno value with *err.
 */
int mt_conf_lock(const char *folder, struct mt_conf_lock *ret_lock, struct mt_err *err);
void mt_conf_unlock(struct mt_conf_lock *lock);
MT_AUTO_DEFINE_INPLACE(mt_conf_lock, struct mt_conf_lock, mt_conf_unlock)

/* A file as it was read. All-zero: not there. */
struct mt_conf_file {
	char *text; /* owned; NUL-terminated; NULL when the file does not exist */
	size_t len;
	mode_t mode;
	uid_t owner;
	gid_t group;
};

void mt_conf_file_done(struct mt_conf_file *f);
MT_AUTO_DEFINE_INPLACE(mt_conf_file, struct mt_conf_file, mt_conf_file_done)

/* Reads a plain file of at most max_bytes; a missing one is no error. 0 or negative errno, *err. */
int mt_conf_read(const char *path, size_t max_bytes, struct mt_conf_file *ret_file,
		 struct mt_err *err);

/*
 * Replaces it: written beside it, flushed to the disk, renamed; mode and owner stay (0644 and ours
 * for a new file). 0 or negative errno with *err, and then nothing has changed.
 */
int mt_conf_replace(const char *path, const struct mt_conf_file *old, const char *text, size_t len,
		    struct mt_err *err);

/* Removes a file and flushes its folder. */
int mt_conf_remove(const char *path, struct mt_err *err);

/*
 * Would every process of the machine be safe to read, or load, this file? It must be a plain file
 * that everybody can read, and neither it nor any folder above it may be changed by anybody but
 * root (and ourselves, with `or_us`). 0, or a negative errno value and *err says what is wrong.
 */
int mt_conf_check_safe(const char *path, bool or_us, struct mt_err *err);

#endif
