/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_OPTIONS_H
#define MT_RUNTIME_OPTIONS_H

/*
 * The environment's wishes: MEMTRACK_MODE, MEMTRACK_OPTIONS, MEMTRACK_DIR and the launcher's
 * MEMTRACK_STATE_DIR. Read once, before anything is recorded; environ is never written.
 */

#include "core/cc.h"

enum { MT_PATH_MAX = 1024 };

struct mt_options {
	uint32_t mode;        /* enum mt_state_mode */
	uint32_t depth;       /* frames kept, 1..256 */
	uint32_t follow;      /* 1: forked and executed children are tracked */
	uint32_t exit_report; /* leak_report: print at exit */
	uint32_t heaps;       /* bit 0 malloc, 1 mmap, 2 brk, 3 custom */
	uint32_t launcher_pid;
	uint32_t in_valgrind; /* 1: track even inside Valgrind (valgrind=track): for instruction
				 counts */
	uint32_t verify;      /* the launcher is asked about every Nth stack, 0: none */
	uint64_t min_size, max_size; /* blocks outside are counted, not recorded one by one */
	uint64_t max_bytes;          /* bound of the tracker's storage, 0: none */
	uint64_t leak_threshold;
	char output[MT_PATH_MAX];    /* pattern, absolute; "" when the launcher decides */
	char state_dir[MT_PATH_MAX]; /* from the launcher; "" else */
	char text[512];              /* options as understood, for the header */
};

/*
 * 0: *ret_options is complete. -EINVAL: something was not understood; one line that names it was
 * written to error (at most bytes, NUL-terminated).
 */
int mt_options_read(char **envp, struct mt_options *ret_options, char *error, size_t bytes);

#endif
