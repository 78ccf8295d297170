/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_PATTERN_H
#define MT_RECORD_PATTERN_H

/* Output paths: %e program, %p pid, %h host, %t time (YYYYMMDD-HHMMSS, UTC), %% a percent sign. */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"

#define MT_PATTERN_DEFAULT "memtrack.%e.%p.mtk"

/* 0, or -EINVAL with a sentence that names the unknown conversion. */
int mt_pattern_check(const char *pattern, struct mt_err *err);

/*
 * The pattern with its conversions replaced. A '/' in the program's name becomes '_'. Heap; caller
 * frees; NULL: no memory. The pattern must have passed mt_pattern_check(); unknown conversions
 * stay.
 */
char *mt_pattern_expand(const char *pattern, const char *program, int pid, uint64_t wall_ns)
	__attribute__((warn_unused_result));

/* Whether processes get different paths: it has %p. */
bool mt_pattern_has_pid(const char *pattern);

/*
 * Makes a relative pattern absolute with the current directory. Heap; caller frees. NULL with *err:
 * no memory or no current directory.
 */
char *mt_pattern_absolute(const char *pattern, struct mt_err *err)
	__attribute__((warn_unused_result));

/* path for attempt 1, "path-2" before its extension for 2, and so on. Heap; NULL: no memory. */
char *mt_pattern_numbered(const char *path, unsigned attempt) __attribute__((warn_unused_result));

/*
 * Whether files can be created where the pattern points: its directory (as far as it has no
 * conversion) exists and may be written, and what is there is a regular file. 0 or a negative errno
 * value with *err.
 */
int mt_pattern_check_writable(const char *pattern, struct mt_err *err);

#endif
