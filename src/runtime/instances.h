/* SPDX-License-Identifier: MIT */
#ifndef MT_RUNTIME_INSTANCES_H
#define MT_RUNTIME_INSTANCES_H

/*
 * How many processes are tracked for one section of the configuration file, told by the directories
 * of their state files: without a launcher, each process that is started makes one, and its name
 * carries the section's tag (runtime/storage.c). Only those of the same user can be looked into,
 * so the bound is one for each user.
 */

#include "core/cc.h"

/*
 * Directories with this tag that a living process records into. mono_start_ns: only those that
 * began before this moment (state file header), 0: all. What cannot be told counts; more entries
 * than are looked at count as UINT32_MAX. Start-up: a few system calls for each entry of /dev/shm
 * and /tmp that has the tag.
 */
uint32_t mt_instances_count(uint32_t tag, uint64_t mono_start_ns);

#endif
