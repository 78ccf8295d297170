/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_ANY_PROCESS_H
#define MT_CLI_ANY_PROCESS_H

/* Processes that commands look at, tracked or not. */

#include "base/err.h"

#include <stddef.h>
#include <sys/types.h>

/*
 * What an operand names: 1 and *ret_pid for a PID or name:PROGRAM (one process of this name runs);
 * 0 for anything else, a file then, also one whose name is a number. Negative with *err.
 */
int mt_any_process(const char *operand, pid_t *ret_pid, struct mt_err *err);

/*
 * The last part of the executable's path, else the kernel's name of the main thread, else "?".
 * `text` has room for `bytes`; returned.
 */
const char *mt_any_process_name(pid_t pid, char *text, size_t bytes);

/* All processes, by number, ended by 0; the caller frees them with free(). NULL: no memory. */
pid_t *mt_any_process_list(void);

#endif
