/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_RECORD_ALLOCS_LINE_H
#define MT_FORMATS_RECORD_ALLOCS_LINE_H

/*
 * Lines of record_allocs, one by one, of every Android version: without times (12, 13), with them
 * (14, 15), with present bytes (16).
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum mt_record_allocs_kind {
	MT_RECORD_ALLOCS_MALLOC,
	MT_RECORD_ALLOCS_CALLOC,
	MT_RECORD_ALLOCS_MEMALIGN,
	MT_RECORD_ALLOCS_REALLOC,
	MT_RECORD_ALLOCS_FREE,
	MT_RECORD_ALLOCS_THREAD_DONE,
};
enum { MT_RECORD_ALLOCS_KINDS = 6 };

/* Values that a line does not have are 0. */
struct mt_record_allocs_line {
	enum mt_record_allocs_kind kind;
	int64_t tid;
	uint64_t pointer;
	uint64_t old;   /* realloc */
	uint64_t n;     /* calloc */
	uint64_t align; /* memalign */
	uint64_t size;  /* calloc: of each */
	uint64_t start_ns, end_ns;
	int64_t present_bytes; /* of the block before free or realloc; -1: not told */
};

/* The text of a kind: "malloc". */
const char *mt_record_allocs_kind_name(enum mt_record_allocs_kind kind);

/*
 * Reads a line without its newline. 0, or -EBADMSG with *err: what Android's own reader says of it,
 * "Failed to read malloc data: <line>" and so on. What stands behind the numbers that a line may
 * have is not looked at.
 */
int mt_record_allocs_parse(const char *line, struct mt_record_allocs_line *ret_line,
			   struct mt_err *err);

/* Appends the line and a newline; times are left out when both are 0 and no present bytes follow.
 */
void mt_record_allocs_put(struct mt_buf *out, const struct mt_record_allocs_line *line);

#endif
