/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_MAPPED_FILES_H
#define MT_TARGET_MAPPED_FILES_H

/*
 * The files that a process has mapped to be written to by all (MAP_SHARED), as a tracked process
 * its state file. By ioctl(PROCMAP_QUERY) where the kernel has it (6.11), which skips all other
 * mappings; else from the text of /proc/PID/maps: the same answer. Thread-safe.
 */

#include <stdint.h>
#include <sys/types.h>

enum mt_mapped_way {
	MT_MAPPED_BEST,
	MT_MAPPED_TEXT /* for tests: as on a kernel without the ioctl */
};

/* Returns 0 to go on. name: as the kernel tells it, with " (deleted)" if it is. */
typedef int mt_mapped_each(void *context, const char *name, uint64_t inode);

/*
 * Calls each for every such mapping, in the order of addresses. What it returned, if not 0;
 * -ENOMEM; or a negative errno value: the mappings may not be looked at, or there is no such
 * process.
 */
int mt_mapped_files(pid_t pid, enum mt_mapped_way way, mt_mapped_each *each, void *context);

#endif
