/* SPDX-License-Identifier: MIT */
#ifndef MT_REPORT_ERROR_BYTES_H
#define MT_REPORT_ERROR_BYTES_H

/* The bytes around an error of check mode and the blocks beside it. Private to report. */

#include "report/error_list.h"
#include "report/json.h"

/* Nothing when nothing is known of them. */
void mt_error_bytes_text(const struct mt_report *r, const struct mt_error_group *g,
			 struct mt_buf *out);

/*
 * Members "changed", "looks_like", "window", "block_before", "block_behind", each only if it is
 * known.
 */
void mt_error_bytes_json(const struct mt_report *r, const struct mt_error_group *g,
			 struct mt_json *j);

/* What the changed bytes look like, as in "looks like TEXT"; nothing when they tell nothing. */
void mt_error_looks(const struct mt_report *r, const struct mt_error_group *g, struct mt_buf *out);

/*
 * "function (file:line)" of a node's innermost frame that is not of the C++ library's operators, or
 * module+0xoffset; escaped.
 */
void mt_error_frame(const struct mt_report *r, const struct mt_profile *p, uint32_t node,
		    struct mt_buf *out);

#endif
