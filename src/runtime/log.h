/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LOG_H
#define MT_RUNTIME_LOG_H

/*
 * Lines for people, in check mode only: what was asked for by name. They go to a duplicate of
 * descriptor 2 as it was at start (so that a program which closes or reuses it loses nothing and
 * gets nothing into its files), to a file, or to the system log:
 *
 *   MEMTRACK_LOG=stderr | file:PATH | syslog[:SOCKET]    %p in PATH is the process's number
 *   MEMTRACK_LOG_PREFIX=WORD[,WORD...] | none            tag, pid, tid, level, time
 *
 * One message is one write. Any thread, any signal handler; errno is kept.
 */

#include "core/cc.h"

enum mt_log_level { MT_LOG_INFO = 0, MT_LOG_ERROR = 1 };

/* Opens the sink that envp asks for; not again in the same process. Start-up. */
void mt_log_begin(char **envp);

/* In a forked child: it keeps no duplicate, see log.c. Nothing if there is no log. */
void mt_log_forked(void);

/* The log is given up: its descriptor is closed. */
void mt_log_end(void);

/* A message of one or more lines, without the last newline; the prefix is put before it. */
void mt_log(enum mt_log_level level, const char *text);

/* Messages that reached nobody. */
uint64_t mt_log_dropped(void);

#endif
