/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_PROCESS_H
#define MT_TARGET_IMAGE_PROCESS_H

/* What /proc says of a process before and while its image is made. */

#include "base/err.h"
#include "core/cc.h"

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* What of /proc/PID/status decides whether a process can be looked into. */
struct mt_image_status {
	char state; /* R S D T Z X ... */
	char name[32];
	uint64_t tracer; /* 0: none */
	uint64_t uid;    /* effective */
	uint64_t seccomp;
	uint64_t inner_pid; /* in its own namespace */
	uint64_t parent;
	bool has_memory; /* a kernel thread and a zombie have none */
	uint64_t blocked, caught, ignored, pending, shared_pending; /* signals, bit 0: signal 1 */
};

/* The same of a thread: tid 0 means the process. 0, -ESRCH, or another negative errno value. */
int mt_image_read_status(pid_t pid, pid_t tid, struct mt_image_status *ret_status);

/* Parses the text. What is missing is 0. */
void mt_image_parse_status(const char *text, struct mt_image_status *ret_status);

/*
 * The rule that forbids to look into a process or to stop it, as one sentence, when the call for
 * that failed with this errno value. Returns a negative errno value.
 */
int mt_image_refuse(pid_t pid, int code, struct mt_err *err);

/* -ESRCH with *err, which names a living thread, if the main thread alone has ended; else 0. */
int mt_image_refuse_headless(pid_t pid, struct mt_err *err);

/* Minor faults of a process so far, 0 when that is not known. */
uint64_t mt_image_faults(pid_t pid);

#endif
