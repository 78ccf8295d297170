/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_PROCESS_H
#define MT_TARGET_PROCESS_H

/* What /proc says about another process. Thread-safe. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mt_process {
	pid_t pid, ppid;
	char state;           /* as in /proc/PID/stat: R S D T Z X ... */
	char name[17];        /* the kernel's name of the main thread */
	uint64_t start_ticks; /* field 22 of /proc/PID/stat: with pid and boot, the identity */
};

/* 0, -ESRCH when there is no such process, or another negative errno value. */
int mt_process_read(pid_t pid, struct mt_process *ret_process);

/* Parses the text of /proc/PID/stat. 0 or -EINVAL. */
int mt_process_parse_stat(const char *text, struct mt_process *ret_process);

/* The kernel's random id of this boot; 0 or a negative errno value (then zeros). */
int mt_process_boot_id(uint8_t ret_id[16]);

/*
 * Whether the process with this pid, start time and boot id still runs (a zombie does not). Start 0
 * or a boot id of zeros is not compared.
 */
bool mt_process_is_running(pid_t pid, uint64_t start_ticks, const uint8_t boot_id[16]);

/* For qsort() of pid_t, upwards. */
int mt_process_compare_pids(const void *a, const void *b);

#endif
