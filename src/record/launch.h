/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_LAUNCH_H
#define MT_RECORD_LAUNCH_H

/*
 * Starts a program with the tracker preloaded and waits for it as a good wrapper does: the
 * terminal's SIGINT and SIGQUIT are the program's alone, other signals sent to us go on to it, it
 * may be stopped and continued, and we can end as it ended. One launch at a time; not thread-safe.
 */

#include <sys/types.h>

#include "base/err.h"

struct mt_launch {
	const char *path;      /* program to execute, see mt_preflight() */
	char *const *argv;     /* its arguments, argv[0] included, NULL at the end */
	const char *library;   /* absolute path of libmemtrack.so */
	const char *state_dir; /* where its state files go */
	const char *options;   /* value of MEMTRACK_OPTIONS */
	const char *check;     /* options of check mode, NULL: not that mode */
	/*
	 * SIGUSR2 is for us: it is not passed on, and this is called in its handler instead. NULL:
	 * it is passed on as others.
	 */
	void (*on_usr2)(void *context);
	void *usr2_context;
	/* Called with the program's pid as soon as it has one. NULL: nobody wants to know. */
	void (*on_start)(void *context, pid_t pid);
	void *start_context;
};

struct mt_launch_end {
	pid_t pid;
	int status; /* as from waitpid */
};

/*
 * Runs the program to its end. 0 with *ret_end, or a negative errno value with *err when it could
 * not be started; then *ret_end is not set.
 */
int mt_launch_run(const struct mt_launch *launch, struct mt_launch_end *ret_end,
		  struct mt_err *err);

/*
 * The program's environment: ours with LD_PRELOAD (the library in front of what was there) and the
 * MEMTRACK_* words of the contract with the runtime. NULL-terminated array in one heap block, freed
 * with free(); strings that are not new are borrowed from `env`. NULL: no memory.
 */
char **mt_launch_environment(const struct mt_launch *launch, char *const *env, pid_t launcher);

/*
 * Finds libmemtrack.so: $MEMTRACK_LIB, else beside our own executable, else in ../lib beside
 * it, else in libdir. Heap; caller frees; NULL with *err.
 */
char *mt_launch_find_library(const char *libdir, struct mt_err *err);

/* Ends this process as `status` (from waitpid) says: same exit status, or same signal without a
 * core. */
void mt_launch_end_like(int status) __attribute__((noreturn));

#endif
