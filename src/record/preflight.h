/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_PREFLIGHT_H
#define MT_RECORD_PREFLIGHT_H

/*
 * Looks at a program before it is run: can it be executed, and would the preload door see anything?
 * Reads files only; nothing of the program runs.
 */

#include "base/err.h"

/* Why a program cannot be run under the tracker. */
enum mt_preflight_why {
	MT_PREFLIGHT_OK = 0,
	MT_PREFLIGHT_NOT_FOUND,      /* exit status 127, as env(1) */
	MT_PREFLIGHT_NOT_EXECUTABLE, /* exit status 126: no permission, a directory, no format we
					know */
	MT_PREFLIGHT_NOT_TRACKABLE, /* exit status 1: it would run, but nothing would be recorded */
	MT_PREFLIGHT_FAILED,        /* exit status 1: a file could not be read, no memory */
};

enum { MT_PREFLIGHT_SCRIPT_LEVELS = 4 };

/*
 * Finds `name` as execvp does (in `search`, the value of PATH, unless it has a '/'; NULL: the
 * system's default) and checks it; for a script the interpreter is checked. On MT_PREFLIGHT_OK
 * *ret_path is the path to execute (heap; caller frees). Otherwise *err holds one sentence.
 */
enum mt_preflight_why mt_preflight(const char *name, const char *search, char **ret_path,
				   struct mt_err *err);

/* Exit status of `memtrack run` for a refusal. */
int mt_preflight_exit_status(enum mt_preflight_why why);

#endif
