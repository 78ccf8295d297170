/* SPDX-License-Identifier: MIT */
#ifndef MT_BASE_LINES_H
#define MT_BASE_LINES_H

/* Texts of lines, as /proc has them. */

#include <string.h>

#include "core/cc.h"

/* The line behind this one; "" behind the last. */
MT_INLINE const char *mt_line_behind(const char *line)
{
	line += strcspn(line, "\n");
	return *line ? line + 1 : line;
}

#endif
