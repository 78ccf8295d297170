/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_CHECK_OPTIONS_H
#define MT_RUNTIME_CHECK_OPTIONS_H

/* Whether check mode is wished for, and how. */

#include "wire/check_options.h"

/*
 * Reads the environment. 1: check mode is to begin, *o is complete but for the paths that nobody
 * names; 0: nobody asks for it; a negative errno value: it was asked for
 * and cannot be, the log says why, and the tracker is to stay off. Opens the log on 1 and on
 * failure. Start-up, after mt_provider_resolve() and mt_options_read().
 */
int mt_check_read_environment(char **envp, const char *program, struct mt_check_options *o);

/*
 * Completes the paths. private: a directory of this process alone, for one with more rights than
 * its caller, who may have chosen the working directory to have files overwritten; else NULL.
 */
void mt_check_choose_paths(char **envp, const char *private, struct mt_check_options *o);

#endif
