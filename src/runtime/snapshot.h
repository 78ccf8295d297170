/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_SNAPSHOT_H
#define MT_RUNTIME_SNAPSHOT_H

#include "runtime/rt.h"

/*
 * Writes the present state to a new file (mode 0600) that readers take for a state file. 0, or a
 * negative errno value and no file is left: -EEXIST, -EFBIG (RLIMIT_FSIZE), -ENOSPC and others.
 * Guard held.
 */
int mt_snapshot_write(struct mt_thread *t, const char *path);

#endif
