/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_TEXT_FILE_H
#define MT_RUNTIME_TEXT_FILE_H

/*
 * A file of text that check mode writes because it was asked to. From open to close the thread's
 * signals wait, so that no handler leaves a file half written by a jump; those that writing itself
 * raises (a limit on the size of files, a pipe without reader) are taken away: the host did nothing
 * for them. errno is kept.
 */

#include "core/fmt.h"

struct mt_text_file {
	int fd, err; /* err: the first failure, a negative errno value; nothing is written after it
		      */
	uint64_t signals, pending;
	struct mt_fmt f;
	char text[16384];
};

/* Creates or empties a file, which must not be a symbolic link. access: MT_O_WRONLY or MT_O_RDWR. 0
 * or a negative errno value.
 */
int mt_text_file_open(struct mt_text_file *t, const char *name, int access, int mode);

/* Begins writing to a descriptor, which stays open at the end. */
void mt_text_file_use(struct mt_text_file *t, int fd);

/* Where the next piece of at most `bytes` goes. */
struct mt_fmt *mt_text_file_room(struct mt_text_file *t, size_t bytes);

/* Copies a whole file to the end: 0 or a negative errno value when it cannot be read. */
int mt_text_file_copy(struct mt_text_file *t, const char *name);

/* Writes what is left. The first failure, or 0. A descriptor of mt_text_file_open() is closed. */
int mt_text_file_close(struct mt_text_file *t);
int mt_text_file_leave(struct mt_text_file *t);

#endif
