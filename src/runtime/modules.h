/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_MODULES_H
#define MT_RUNTIME_MODULES_H

/* Keeps the unwinder's module list and the state file's MODULES region up to date. */

#include "runtime/rt.h"

/*
 * Reads the loader's list and publishes it if it changed. Called at start and, through mt_unwind,
 * at the first capture after a change. 0: the list is as of this call or later. A negative errno
 * value: it could not be read (no memory, or the loader is at work on it), or another thread took
 * too long.
 */
int mt_modules_refresh(void);

/*
 * Before the calling thread loads or unloads, where the notifier could not be patched: the list is
 * read at each capture of this thread until the loader is at rest and something changed, or nothing
 * does.
 */
void mt_modules_expect_change(void);

/* In a forked child: no list is waiting to be unmapped. */
void mt_modules_forget(void);

/*
 * Makes the loader count its changes: its notifier function, an empty `ret`, becomes "increment
 * mt_unwind.change_count, return". One aligned 8-byte write through /proc/self/mem, so the page
 * stays read-only. 1 when done; 0 where the code does not look as expected (dlopen and dlclose
 * hooks count).
 */
int mt_modules_patch_notifier(void);

#endif
