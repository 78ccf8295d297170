/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_PATH_H
#define MT_BASE_PATH_H

/* Path names. Pure text except for mt_path_make_dirs(). */

#include <sys/types.h>

#include "base/err.h"
#include "core/cc.h"

/* Part after the last '/'; borrowed from path. "" when path ends in '/' or is "". */
const char *mt_path_base(const char *path);

/* Directory part: "." when there is no '/', "/" for "/x". Heap; caller frees; NULL: no memory. */
char *mt_path_dir(const char *path) __attribute__((warn_unused_result));

/*
 * dir and name with one '/' between; name alone when it is absolute or dir is "". Heap; caller
 * frees; NULL: no memory.
 */
char *mt_path_join(const char *dir, const char *name) __attribute__((warn_unused_result));

/* Makes path and its missing parents (like mkdir -p). 0 or a negative errno value with *err. */
int mt_path_make_dirs(const char *path, mode_t mode, struct mt_err *err);

#endif
