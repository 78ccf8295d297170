/* SPDX-License-Identifier: MIT */
#ifndef MT_WIRE_CHECK_OPTIONS_H
#define MT_WIRE_CHECK_OPTIONS_H

/*
 * The options of check mode, as Android's malloc debug has them (LIBC_DEBUG_MALLOC_OPTIONS, or
 * --check=): names and values separated by blanks. docs/check.md lists them. The tracked process
 * reads them, and the launcher before it starts one.
 */

#include "core/cc.h"

enum mt_check_flags {
	MT_CHECK_FRONT_GUARD = 1 << 0,
	MT_CHECK_REAR_GUARD = 1 << 1,
	MT_CHECK_BACKTRACE = 1 << 2, /* stacks of allocations; at first off with ON_SIGNAL alone */
	MT_CHECK_BACKTRACE_ON_SIGNAL = 1 << 3, /* a signal switches them */
	MT_CHECK_BACKTRACE_DUMP_ON_EXIT = 1 << 4,
	MT_CHECK_BACKTRACE_FULL = 1 << 5, /* stacks are printed in the long form */
	MT_CHECK_FILL_ON_ALLOC = 1 << 6,
	MT_CHECK_FILL_ON_FREE = 1 << 7,
	MT_CHECK_EXPAND_ALLOC = 1 << 8,
	MT_CHECK_FREE_TRACK = 1 << 9,
	MT_CHECK_TRACK = 1 << 10, /* pointers given to free and so on are verified */
	MT_CHECK_LEAK_TRACK = 1 << 11,
	MT_CHECK_RECORD_ALLOCS = 1 << 12,
	MT_CHECK_RECORD_ON_EXIT = 1 << 13,
	MT_CHECK_ABORT_ON_ERROR = 1 << 14,
	MT_CHECK_VERBOSE = 1 << 15,
	MT_CHECK_UNREACHABLE_ON_SIGNAL = 1 << 16,
	MT_CHECK_STATS_ON_SIGNAL = 1 << 17,
	MT_CHECK_STATS_ON_EXIT = 1 << 18,
	/* memtrack's own */
	MT_CHECK_GUARD_PAGE = 1 << 19,     /* some blocks lie against an inaccessible page */
	MT_CHECK_HEAP_ON_SIGNAL = 1 << 20, /* a signal checks all guards and freed blocks */
};

enum { MT_CHECK_PATH_MAX = 512, MT_CHECK_MODULES_MAX = 256, MT_CHECK_SITES_MAX = 1024 };

struct mt_check_options {
	uint32_t flags;                        /* enum mt_check_flags */
	uint32_t front_guard;                  /* bytes, a multiple of 16; 0: none */
	uint32_t rear_guard;                   /* bytes; 0: none */
	uint32_t expand;                       /* bytes added to each request */
	uint64_t fill_on_alloc, fill_on_free;  /* at most so many bytes of a block; 0: none */
	uint32_t frames;                       /* of allocations' stacks, 1..256 */
	uint32_t free_frames;                  /* of frees' stacks, 0..256 */
	uint64_t backtrace_min, backtrace_max; /* sizes whose stacks are kept */
	uint32_t free_track;                   /* blocks held back after their free, at most */
	uint32_t record_entries;
	char record_file[MT_CHECK_PATH_MAX]; /* "": none was given */
	char dump_prefix[MT_CHECK_PATH_MAX]; /* "": none was given */
	/* memtrack's own */
	uint64_t free_track_bytes;   /* held back at most; 0: no bound */
	uint32_t guard_page;         /* with GUARD_PAGE: every Nth block that fits */
	uint32_t heap_every;         /* all blocks are checked every N calls, 0: never */
	uint64_t only_min, only_max; /* blocks of other sizes are not checked */
	char only_modules[MT_CHECK_MODULES_MAX]; /* +GLOB and -GLOB, as --modules; "": all */
	/* check_sites.h; "": all */
	char only_sites[MT_CHECK_SITES_MAX], guard_page_sites[MT_CHECK_SITES_MAX];
};

/* Where they come from, and what --check without a value stands for. */
#define MT_CHECK_VARIABLE "LIBC_DEBUG_MALLOC_OPTIONS"
#define MT_CHECK_USUAL "backtrace guard free_track fill verify_pointers"

/* Who is told what is wrong. */
struct mt_check_listener {
	const char *program;                          /* lines begin with it */
	const char *range_text;                       /* what the C library says of ERANGE */
	void (*say)(void *context, const char *line); /* a line without its newline */
	void *context;
};

/*
 * Reads `text`. 0, or -EINVAL: say was called, first with what is wrong and then with two lines
 * about where options are described, and *ret_options is of no use. No memory, no calls: any
 * moment.
 */
int mt_check_options_read(const char *text, const struct mt_check_listener *listener,
			  struct mt_check_options *ret_options);

#endif
