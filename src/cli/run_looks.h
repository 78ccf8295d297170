/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_RUN_LOOKS_H
#define MT_CLI_RUN_LOOKS_H

/* What memtrack run does when a tracked process asks for a look at its memory. */

#include "record/looker.h"

/* As mt_looker_serve: searches for lost blocks and stores what it found. */
void mt_run_look(const char *path, struct mt_state_header *h);

#endif
