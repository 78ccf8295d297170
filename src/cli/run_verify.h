/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_RUN_VERIFY_H
#define MT_CLI_RUN_VERIFY_H

/* The part of `memtrack run` that deals with --verify. */

#include "record/verify.h"

#include <stdbool.h>

/* Ends the verification. What is wrong is told even when quiet: it is an error of ours. */
void mt_run_verify_tell(struct mt_verifier *verifier, bool is_verbose);

#endif
