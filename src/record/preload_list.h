/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_PRELOAD_LIST_H
#define MT_RECORD_PRELOAD_LIST_H

/*
 * The text of /etc/ld.so.preload: paths separated by blanks, colons and newlines; # begins a
 * comment. Text in, text out.
 */

#include <stdbool.h>

#include "base/buf.h"

/* Is this very path in the list? */
bool mt_preload_list_has(const char *text, const char *path);

/* Appends the list with the path in front of all others, in a line of its own. 0 or -ENOMEM. */
int mt_preload_list_add(const char *text, const char *path, struct mt_buf *out);

/*
 * Appends the list without the paths that end in /file; a line that held nothing else goes.
 * *ret_count: how many there were. 0 or -ENOMEM.
 */
int mt_preload_list_remove(const char *text, const char *file, struct mt_buf *out,
			   unsigned *ret_count);

/* Appends the paths as LD_PRELOAD takes them, separated by colons. 0 or -ENOMEM. */
int mt_preload_list_join(const char *text, struct mt_buf *out);

#endif
