/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_VERIFY_H
#define MT_RUNTIME_VERIFY_H

/* verify=N: the launcher is asked whether a recorded stack is right. See wire/verify.h. */

#include "runtime/rt.h"

/* Maps the launcher's board when verify=N was asked for. Once a process, before the first question.
 */
void mt_verify_open(void);

/*
 * Asks about the stack of a cell that this thread just used, counts the answer in the thread's row.
 * Waits, but never longer than a few seconds in all when nobody answers. Holds no lock; called with
 * the guard taken.
 */
MT_COLD void mt_verify_capture(struct mt_thread *t, uint32_t cell);

#endif
