/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_LOOK_H
#define MT_CLI_LOOK_H

/* Profiles of running processes with what a look at their memory tells of each block. */

#include "base/err.h"
#include "model/profile.h"

/*
 * Reads a state file as mt_mtk_read() does; while its process runs, and every block of it is
 * recorded, the process's memory is searched, too (cli/leak_search.h). Where that fails the profile
 * is as it is in the file, and a message says why. 0 or a negative errno value with *err.
 */
int mt_look(const char *state, struct mt_profile **ret_profile, struct mt_err *err);

#endif
