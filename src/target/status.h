/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_STATUS_H
#define MT_TARGET_STATUS_H

/*
 * What /proc says of a process beside its mappings: counters of /proc/PID/status, readable for
 * everybody; and the figures of one line in a list of processes. Thread-safe.
 */

#include "target/smaps.h"

enum mt_status_field {
	MT_STATUS_VM_SIZE,
	MT_STATUS_VM_PEAK,
	MT_STATUS_RSS,
	MT_STATUS_RSS_PEAK,
	MT_STATUS_RSS_ANON,
	MT_STATUS_RSS_FILE,
	MT_STATUS_RSS_SHMEM,
	MT_STATUS_SWAP,
	MT_STATUS_PAGE_TABLES,
	MT_STATUS_LOCKED,
	MT_STATUS_FIELDS
};

/* Bytes, MT_MEMORY_UNKNOWN for what is not there. */
struct mt_status {
	uint64_t bytes[MT_STATUS_FIELDS];
	uint64_t threads; /* 0: not known */
};

void mt_status_parse(const char *text, struct mt_status *ret_status);
/* 0 or -ESRCH. */
int mt_status_read(pid_t pid, struct mt_status *ret_status);

/* "VmRSS", as in the text. */
const char *mt_status_name(enum mt_status_field field);

struct mt_usage {
	pid_t pid;
	char name[256];          /* command line, or [name] of a process without one; may be cut */
	struct mt_smaps_sum sum; /* size_bytes: VmSize */
	bool is_partial;         /* may not be looked at: Rss, Anonymous and Swap of status alone */
};

/* From smaps_rollup (smaps on kernels without it). 0; -ESRCH: gone, or without memory; -ENOMEM. */
int mt_usage_read(pid_t pid, struct mt_usage *ret_usage);

/* The sum that status alone gives. */
void mt_usage_of_status(const struct mt_status *st, struct mt_smaps_sum *ret_sum);

#endif
