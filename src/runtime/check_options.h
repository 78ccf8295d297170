/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_OPTIONS_H
#define MT_RUNTIME_CHECK_OPTIONS_H

/* Whether check mode is wished for, and how. */

#include "wire/check_options.h"

/*
 * Reads the environment. 1: check mode is to begin, *o is complete (paths included); 0: nobody asks
 * for it, or the process has more rights than its user; a negative errno value: it was asked for
 * and cannot be, the log says why, and the tracker is to stay off. Opens the log on 1 and on
 * failure. Start-up, after mt_provider_resolve() and mt_options_read().
 */
int mt_check_read_environment(char **envp, const char *program, struct mt_check_options *o);

#endif
