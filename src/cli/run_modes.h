/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_RUN_MODES_H
#define MT_CLI_RUN_MODES_H

/* Which options of `memtrack run` mean something in which mode: none is ignored in silence. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An option, and the modes it is for. */
struct mt_run_use {
	const char *name; /* without dashes */
	bool is_given;
	const char *mode;  /* the word of the mode it belongs to */
	const char *later; /* the word of one where it counts from when sampling begins; or NULL */
};

/*
 * mode: the word of --mode, or "check". Complains of the first option that the mode does not know.
 * is_quiet: no note of one that counts later only. 0 or MT_EXIT_USAGE.
 */
int mt_run_modes_check(const struct mt_run_use *use, size_t count, const char *mode, bool is_quiet);

/* Complains of a heap in the list of --heaps that is none. 0 or MT_EXIT_USAGE. */
int mt_run_check_heaps(const char *heaps);

#endif
