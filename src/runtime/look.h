/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_LOOK_H
#define MT_RUNTIME_LOOK_H

/*
 * Asks the launcher to look at this process's memory: which live blocks nothing can reach any more
 * (docs/formats/mtk.md, Looks). We wait for the answer, for a bounded time; the search itself goes
 * on outside.
 */

#include "wire/state.h"

/* What a process at its end waits at most for a copy of its memory, and others for an answer. */
enum { MT_LOOK_EXIT_MS = 2000, MT_LOOK_ANSWER_MS = 30000 };

/* At the program's end, if that was asked for (--lost). Once a process. */
void mt_look_at_exit(void);

/* 1: every block is recorded. Else a look would say nothing. */
int mt_look_is_table(void);

/*
 * A look at once: by the launcher's looker, else by the command memtrack, which we start. What came
 * of it; MT_LOOK_MADE: hdr->look_count and look_bytes are its result. MT_LOOK_NONE: there is nobody
 * to ask. The guard may be held or not: nothing is allocated. Any
 * thread; while one thread asks, others get MT_LOOK_FAILED.
 */
enum mt_state_look mt_look_now(enum mt_state_look_why why);

#endif
