/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_PROGRAMS_H
#define MT_RUNTIME_PROGRAMS_H

/*
 * Whether this process is one that the configuration file names (wire/programs.h). Asked once, at
 * start, before anything is made: the library may be in every process of a machine, and must cost
 * those that are not named a few microseconds and change nothing in them.
 */

#include "elf/loader.h"
#include "runtime/options.h"

enum mt_programs_say {
	MT_PROGRAMS_ENVIRONMENT, /* the variables count, as they are */
	MT_PROGRAMS_LISTED,      /* what is in mt_programs_envp() counts instead */
	MT_PROGRAMS_OFF,         /* nothing is tracked */
};

/*
 * Start-up, one thread. error: "" or one line, to be printed with MT_PROGRAMS_OFF: only when the
 * user named a configuration file that cannot be used.
 */
enum mt_programs_say mt_programs_ask(const struct mt_start_block *block, char *error, size_t bytes);

/* After LISTED: the environment from which options are to be read. */
char **mt_programs_envp(void);

/* After LISTED: adds what the file says to the options that were read from that environment. */
void mt_programs_finish(struct mt_options *options);

#endif
