/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_TRIAGE_H
#define MT_CLI_TRIAGE_H

/* The facts of a triage, gathered from a process. */

#include "analysis/triage.h"
#include "base/err.h"

#include <sys/types.h>

struct mt_triage_watch {
	pid_t pid;
	uint64_t for_ns;
	bool no_stop;    /* leave out what needs the process to stand still */
	bool no_symbols; /* name call sites by module and offset */
};

/*
 * Watches the process for a while. What cannot be done is in the facts, with the reason. 0, or a
 * negative errno value with *err: there is no such process, or no memory.
 */
int mt_triage_gather(const struct mt_triage_watch *w, struct mt_triage_facts *ret,
		     struct mt_err *err);

#endif
