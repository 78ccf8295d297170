/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_STATEDIR_H
#define MT_RECORD_STATEDIR_H

/*
 * The private directory in which the state files of one process tree lie while they are written:
 * BASE/memtrack-UID-XXXXXX, mode 0700, the last part random. It holds `PID.SEQ.mtk` files and a
 * file `output` with the path pattern that finished files shall get; its maker keeps a lock on that
 * file for as long as it lives, so that others can tell an abandoned directory.
 *
 * A process that has no launcher, or cannot write to its launcher's directory, makes one of its
 * own, BASE/memtrack-UID-LAUNCHER-RANDOM, in /dev/shm or /tmp; LAUNCHER is the launcher's pid, 0:
 * none.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

enum { MT_STATEDIR_NEED_BYTES = 16 << 20 }; /* less room than this: the next place is taken */

struct mt_statedir {
	char *path;    /* owned; NULL: none */
	int lock_fd;   /* close-on-exec; -1: none */
	char *avoided; /* owned; one sentence why /dev/shm was not used; NULL: it was used */
};

/*
 * Makes the directory: in /dev/shm, else in $TMPDIR, else in /tmp; MT_STATEDIR_NEED_BYTES must be
 * free there. `pattern` is written into its `output` file. 0 or a negative errno value with *err.
 */
int mt_statedir_create(const char *pattern, struct mt_statedir *ret_dir, struct mt_err *err);

/* Removes the directory when nothing but `output` is left in it, then mt_statedir_done(). */
void mt_statedir_remove(struct mt_statedir *dir);

/* Gives up memory and lock; the directory stays. NULL and all-zero objects with fd -1 are allowed.
 */
void mt_statedir_done(struct mt_statedir *dir);
MT_AUTO_DEFINE_INPLACE(mt_statedir, struct mt_statedir, mt_statedir_done)

/*
 * Calls visit for each existing private directory of this user under the bases above, in order of
 * base and name, from number `first` (of any size: it is wrapped) around to it; directories that
 * others own or may write to are passed over. Stops when visit returns not 0 and returns that
 * value; else 0, or -ENOMEM.
 */
int mt_statedir_each(size_t first, int (*visit)(void *context, const char *path), void *context);

/*
 * As above for the directories that processes of this launcher made for themselves, of all users
 * that this process may open (its own; those of everybody for root). No other is opened: the name
 * tells. A directory may be swapped for another by its owner at any time: `fd` is the one that was
 * checked (closed after the visit), `path` is for messages.
 */
int mt_statedir_each_of(pid_t launcher, int (*visit)(void *context, const char *path, int fd),
			void *context);

/* Whether the maker of the directory lives: what ended there is collected by it. */
bool mt_statedir_is_attended(const char *path);

/*
 * Takes over an abandoned directory: locks it and reads its pattern (heap, in *ret_pattern; "" when
 * there is none). 0; -EAGAIN: its maker lives, or it is brand new; another negative errno value.
 * Release the result with mt_statedir_done() or mt_statedir_remove().
 */
int mt_statedir_adopt(const char *path, struct mt_statedir *ret_dir, char **ret_pattern);

#endif
