/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_RUN_FILES_H
#define MT_CLI_RUN_FILES_H

/* What becomes of the state files of a run, and what memtrack run says of it. */

#include <stdbool.h>
#include <sys/types.h>

#include "record/collect.h"
#include "record/companion.h"

struct mt_run_files {
	const char *pattern;      /* where they go; borrowed */
	pid_t program;            /* the launcher's own child, 0: not started; atomic */
	struct mt_collection all; /* the companion's thread's alone until it has stopped */
};

/* Remembers the launcher's own child: on_start of struct mt_launch. */
void mt_run_files_started(void *context, pid_t pid);

/*
 * Collects the states of other processes as they end: take of struct mt_companion_run. The last one
 * of the program itself is left for the launcher, who sees how it ended.
 */
mt_companion_take mt_run_files_take;

/*
 * Says what is to be said of the files; with_paths: also where those are that lie where they
 * should. Returns whether all do, or their process still runs.
 */
bool mt_run_files_tell(const struct mt_collection *all, bool is_quiet, bool with_paths);

/* Why there is no file: as far as can be seen from here. */
void mt_run_files_tell_nothing(void);

/* What this run found of others and was too much for it. */
void mt_run_files_tell_others(const struct mt_collection *others, bool is_all_collected,
			      bool is_verbose);

#endif
