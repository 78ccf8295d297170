/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_MEMORY_H
#define MT_TARGET_MEMORY_H

/* How much memory the kernel says a process has. Thread-safe. */

#include <stdint.h>
#include <sys/types.h>

#define MT_MEMORY_UNKNOWN UINT64_MAX

/* Bytes; MT_MEMORY_UNKNOWN for what cannot be read. */
struct mt_memory {
	uint64_t rss_bytes;
	uint64_t anon_bytes; /* of RSS: anonymous */
	uint64_t swap_bytes;
	uint64_t pss_bytes; /* RSS with shared pages divided by their users */
};

/*
 * RSS, anonymous memory and swap from /proc/PID/status: counters, no cost for the process. PSS is
 * not known then.
 */
void mt_memory_read(pid_t pid, struct mt_memory *ret_memory);

/*
 * PSS too, from /proc/PID/smaps_rollup. The kernel walks the page tables for it and holds off
 * mmap and munmap of the process meanwhile, some ms a GiB: not to be called every second.
 */
void mt_memory_read_pss(pid_t pid, struct mt_memory *ret_memory);

/* The value in bytes of a line `Key:   123 kB` in text; MT_MEMORY_UNKNOWN: there is no such line.
 */
uint64_t mt_memory_parse(const char *text, const char *key);

#endif
