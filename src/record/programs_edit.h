/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_PROGRAMS_EDIT_H
#define MT_RECORD_PROGRAMS_EDIT_H

/*
 * Changes the text of the configuration file of programs (wire/programs.h) as little as possible:
 * comments, order, and whatever is not asked for stay. Text in, text out; no file is touched.
 */

#include <stdbool.h>

#include "base/buf.h"
#include "base/err.h"
#include "core/cc.h"
#include "wire/programs.h"

/* A section that is to be there. */
struct mt_programs_wish {
	const char *name;
	bool has_user; /* belongs to what identifies the section, with the name */
	uint32_t user;
	const char *check, *options; /* both NULL: as they are; else what is NULL goes */
	bool has_limit;              /* else as it is */
	uint32_t limit;
	bool is_secure; /* adds secure = yes; else as it is */
};

/*
 * Appends the text with this section changed or added, and enabled. A new one stands before the
 * first section that would take its programs away, else at the end. 0, or a negative errno value
 * with *err: -EINVAL (a name or value that the file cannot hold, a mistake in the section as it is,
 * or the text would become too long), -ENOMEM.
 */
int mt_programs_enable(struct mt_program_text text, const struct mt_programs_wish *wish,
		       struct mt_buf *out, struct mt_err *err);

/*
 * Appends the text with sections disabled: those of this name (and of this user if has_user), or
 * all if name is NULL. *ret_count: how many there are, disabled before or now. Errors as above.
 */
int mt_programs_disable(struct mt_program_text text, const char *name, bool has_user, uint32_t user,
			struct mt_buf *out, uint32_t *ret_count, struct mt_err *err);

#endif
