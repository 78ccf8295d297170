/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_REPLAY_H
#define MT_RECORD_REPLAY_H

/*
 * Runs a recording's calls against an allocator, in a fresh process of its own: this program
 * started again under another name, with the allocator preloaded. One thread makes all calls, in
 * the recording's order. The other process is fed through a pipe, so that it needs no memory but
 * what the calls take and a table of pointers, whose size is subtracted.
 */

#include <stdbool.h>

#include "base/err.h"
#include "formats/mtr_read.h"
#include "model/profile.h"

#define MT_REPLAY_NAME "memtrack-replay" /* argv[0] of the other process */

enum mt_replay_touch {
	MT_REPLAY_TOUCH_PAGES, /* a byte of each page that a new block has */
	MT_REPLAY_TOUCH_ALL,   /* every byte */
	MT_REPLAY_TOUCH_NONE,
};

struct mt_replay_options {
	const char *allocator; /* library to preload; NULL: the present one */
	enum mt_replay_touch touch;
};

struct mt_replay_result {
	char allocator[256]; /* path of the library whose malloc was called */
	uint64_t calls, allocs, frees, reallocs;
	uint64_t failed; /* allocations that the allocator refused */
	uint64_t time_ns;
	uint64_t peak_bytes, live_bytes; /* bytes asked for, as in the recording */
	uint64_t peak_rss_bytes;         /* above what the process had before the first call */
};

/* 0 and *ret_result, or a negative errno value with *err. */
int mt_replay_run(const struct mt_mtr *m, const struct mt_profile *p,
		  const struct mt_replay_options *o, struct mt_replay_result *ret_result,
		  struct mt_err *err);

/* The other process: calls from descriptor 0, result to descriptor 1. Returns the exit status. */
int mt_replay_main(void);

#endif
