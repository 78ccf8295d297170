/* SPDX-License-Identifier: MIT */
#ifndef MT_CLI_MEMINFO_WATCH_H
#define MT_CLI_MEMINFO_WATCH_H

/* The sums of a process again and again, from smaps_rollup, for half a per cent of a processor. */

#include "report/maps.h"

struct mt_meminfo_watch {
	pid_t pid;
	uint64_t every_ns;
	uint64_t readings; /* 0: until the process ends, or somebody interrupts */
	enum mt_maps_format format;
};

/* Writes a line a reading to standard output. 0 or a negative errno value with *err. */
int mt_meminfo_watch(const struct mt_meminfo_watch *w, struct mt_err *err);

#endif
