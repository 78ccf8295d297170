/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_OUTPUT_H
#define MT_CLI_OUTPUT_H

/* Where a command's text goes. */

#include "base/buf.h"
#include "base/err.h"

/*
 * Writes text to the file `path` (complete or not at all), or to standard output when path is NULL
 * or
 * "-". 0 or a negative errno value with *err; a reader of standard output that went away is no
 * error.
 */
int mt_output_write(const struct mt_buf *text, const char *path, struct mt_err *err);

#endif
