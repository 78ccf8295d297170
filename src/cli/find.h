/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_FIND_H
#define MT_CLI_FIND_H

/* Live state files on this machine, and what a FILE operand names. */

#include <stddef.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"
#include "wire/state.h"

/* A state file that is being written, or was when its process ended. */
struct mt_live_state {
	char *path;    /* owned */
	char *program; /* owned: last part of the executable's path */
	char *called;  /* owned: the same of the name that it was started by, as a link's */
	struct mt_state_header header;
	int is_running;
};

struct mt_live_states {
	struct mt_live_state *item; /* owned; sorted by pid, then start */
	size_t count, capacity;
	uint64_t unreadable; /* files with a state's name that are none, or may not be read */
};

void mt_live_states_done(struct mt_live_states *s);
MT_AUTO_DEFINE_INPLACE(mt_live_states, struct mt_live_states, mt_live_states_done)

/*
 * Finds them: in private directories, in MEMTRACK_DIR, and mapped by any process whose maps we may
 * read. 0 or -ENOMEM.
 */
int mt_live_states_find(struct mt_live_states *ret_states);

/*
 * The state file that a running process writes; of several (exec) the newest. Heap; caller frees.
 * *ret_path is NULL when it is not tracked, or may not be looked at. 0 or -ENOMEM with *err.
 */
int mt_live_state_of(pid_t pid, char **ret_path, struct mt_err *err);

/*
 * The path that a FILE operand means: itself when it exists; a PID or name:PROGRAM names the live
 * state of that process. Heap; caller frees. NULL with *err; several matches are listed in the
 * sentence.
 */
char *mt_find_file(const char *operand, struct mt_err *err);

#endif
