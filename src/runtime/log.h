/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LOG_H
#define MT_RUNTIME_LOG_H

/*
 * Lines for people, in check mode only: what was asked for by name. They go to a duplicate of
 * descriptor 2 as it was at start (so that a program which closes or reuses it loses nothing and
 * gets nothing into its files), to a file, or to the system log. One message is one write.
 * Any thread, any signal handler; errno is kept.
 */

#include "core/cc.h"

enum mt_log_level { MT_LOG_INFO = 0, MT_LOG_ERROR = 1 };

/* Opens the sink that the environment asks for. Start-up, and in a forked child. */
void mt_log_begin(void);

/* A message of one or more lines, without the last newline; the prefix is put before it. */
void mt_log(enum mt_log_level level, const char *text);

#endif
