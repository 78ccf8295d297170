/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_VIEW_ALLOCS_H
#define MT_CLI_VIEW_ALLOCS_H

/* memtrack view of a record_allocs text: sums of its calls, no tree, since it has no stacks. */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"

/*
 * 1: the file at path is such a text and *out has its sums; 0: it is something else, or a pipe, and
 * nothing was done; or a negative errno value with *err.
 */
int mt_view_allocs(const char *path, bool json, struct mt_buf *out, struct mt_err *err);

#endif
