/* SPDX-License-Identifier: MIT */
#ifndef MT_FORMATS_RECORD_ALLOCS_READ_H
#define MT_FORMATS_RECORD_ALLOCS_READ_H

/*
 * Reads the text that record_allocs writes (record_allocs_line.h) and sums it up. A line at a time:
 * memory holds what is live, and one entry for each address that was ever used.
 */

#include <stddef.h>

#include "formats/record_allocs_line.h"

struct mt_record_allocs_calls {
	uint64_t count, failed; /* failed: no block was given */
	uint64_t timed, ns;     /* calls that have times, and how long they took in all */
	uint64_t slowest_ns;
};

/* Sizes are as they were asked for. */
struct mt_record_allocs_stats {
	uint64_t lines;
	struct mt_record_allocs_calls calls[MT_RECORD_ALLOCS_KINDS];
	uint64_t threads; /* different numbers */
	/* blocks: a realloc of a block is one of each */
	uint64_t allocs, bytes, frees, freed_bytes;
	uint64_t live_count, live_bytes;            /* at the end */
	uint64_t peak_bytes, peak_count, peak_line; /* when most bytes were live, and how many
						       blocks */
	uint64_t unknown_frees;                     /* of blocks that no line gave */
	uint64_t lost_blocks; /* given again without having been freed: their frees are missing */
	uint64_t first_ns, last_ns; /* CLOCK_MONOTONIC of the process; 0: no times */
	/* frees that tell them: bytes of the blocks that were in memory, and asked for */
	uint64_t present_frees, present_bytes, present_of_bytes;
};

/* 1 when the text looks like record_allocs: its first line that is not blank is one. */
bool mt_record_allocs_is(const char *text, size_t len);

/*
 * Reads from the descriptor's present position to its end; `name` is for messages. 0, or a negative
 * errno value with *err: -EBADMSG for the first line that cannot be read (err.offset: where it
 * begins), -ENOMEM, or that of a failed read.
 */
int mt_record_allocs_read_fd(int fd, const char *name, struct mt_record_allocs_stats *ret_stats,
			     struct mt_err *err);

/* As above from memory, which is not kept. */
int mt_record_allocs_read_memory(const void *data, size_t len, const char *name,
				 struct mt_record_allocs_stats *ret_stats, struct mt_err *err);

/* The sums as text for people. */
void mt_record_allocs_stats_put(const struct mt_record_allocs_stats *stats, struct mt_buf *out);

#endif
