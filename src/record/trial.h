/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_TRIAL_H
#define MT_RECORD_TRIAL_H

/*
 * Starts small programs under a library before it is put into all of them: each must end as it does
 * without, with the same output and nothing on standard error, within seconds.
 */

#include "base/err.h"

/*
 * environment: NULL-terminated, as it is given to the programs; nothing else is. 0; -ENOEXEC with
 * *err: a program did otherwise, or there is none to try; another negative errno value with *err.
 */
int mt_trial_run(char *const *environment, struct mt_err *err);

#endif
