/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_OUTPUT_H
#define MT_CLI_OUTPUT_H

/* Where a command's text goes. */

#include "base/buf.h"
#include "base/err.h"

/*
 * Writes text to the file `path`, or to standard output when path is NULL or "-". A regular file is
 * complete or not touched at all; a device, a pipe or what a symbolic link names is written in
 * place. 0 or a negative errno value with *err; a reader of standard output that went away is no
 * error.
 */
int mt_output_write(const struct mt_buf *text, const char *path, struct mt_err *err);

/* Whether that can be done for `path` as far as one can know before. 0 or negative with *err. */
int mt_output_check(const char *path, struct mt_err *err);

#endif
