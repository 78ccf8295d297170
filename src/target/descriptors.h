/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_DESCRIPTORS_H
#define MT_TARGET_DESCRIPTORS_H

/*
 * Open descriptors of a process, and the memory behind those that are of shared memory: memory
 * files (memfd), files of tmpfs, System V segments. Such memory is there whether it is mapped or
 * not. No file of another kind is touched: a hung server must not hang who looks. And what the
 * kernel limits. Thread-safe.
 */

#include "base/cleanup.h"
#include "base/map.h"

#include <stdint.h>
#include <sys/types.h>

struct mt_descriptors {
	uint64_t count;
	uint64_t buffers; /* different files of shared memory among them */
	uint64_t buffer_bytes;
	uint64_t widest_bytes;
	char widest[160];  /* name of the largest of them, as the kernel says */
	uint64_t left_out; /* beyond the bound: counted, not looked at */
};

/* 0; -EACCES: they may not be looked at; -ESRCH; -ENOMEM. */
int mt_descriptors_read(pid_t pid, struct mt_descriptors *ret);

/* The number behind "mnt_id:" in a text of fdinfo; 0: there is none. */
uint64_t mt_descriptors_mount(const char *text);

/* Enters the numbers of the mounts of tmpfs in a text of mountinfo. 0 or -ENOMEM. */
int mt_descriptors_tmpfs(const char *text, struct mt_map *mounts);

/*
 * The soft limit in a line "NAME   SOFT   HARD   UNIT" of /proc/PID/limits; MT_MEMORY_UNKNOWN: no
 * limit, or no such line.
 */
uint64_t mt_limits_parse(const char *text, const char *name);

#endif
