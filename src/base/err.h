/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_ERR_H
#define MT_BASE_ERR_H

/*
 * What went wrong, filled once where it happened: a code for programs, one sentence for people
 * (lower case, what failed first, the subject in single quotes, no full stop, no newline). All-zero
 * is "no error". Lives wherever the caller puts it; owns nothing.
 */

#include <stdarg.h>
#include <stdint.h>

#include "core/cc.h"

#define MT_ERR_NO_OFFSET UINT64_MAX
enum { MT_ERR_TEXT_MAX = 1024 };

struct mt_err {
	int code;        /* negative errno value; 0: no error */
	uint64_t offset; /* byte in the input, MT_ERR_NO_OFFSET: does not apply (0 in a zeroed
			    object) */
	char text[MT_ERR_TEXT_MAX];
};

/* Fills err (may be NULL) and returns code. A sentence that is too long is cut. Keeps errno. */
int mt_err_set(struct mt_err *err, int code, const char *fmt, ...) MT_PRINTF(3, 4);
int mt_err_set_at(struct mt_err *err, int code, uint64_t offset, const char *fmt, ...)
	MT_PRINTF(4, 5);
int mt_err_vset_at(struct mt_err *err, int code, uint64_t offset, const char *fmt, va_list ap)
	MT_PRINTF(4, 0);

/*
 * For a failed system call: "<fmt...>: <text of the errno value>". `code` may be given as errno or
 * as negative errno value. Returns the negative one.
 */
int mt_err_set_errno(struct mt_err *err, int code, const char *fmt, ...) MT_PRINTF(3, 4);

/* "cannot allocate memory"; returns -ENOMEM. */
int mt_err_no_memory(struct mt_err *err);

/* Back to "no error". NULL is allowed. */
void mt_err_clear(struct mt_err *err);

/*
 * The text of an errno value (sign does not matter), the same in every locale; "error 1234" for an
 * unknown one. Static storage per thread for unknown ones, else constant.
 */
const char *mt_err_text_of(int code);

#endif
