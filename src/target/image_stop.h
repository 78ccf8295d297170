/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_IMAGE_STOP_H
#define MT_TARGET_IMAGE_STOP_H

/*
 * All threads of another process, stopped by ptrace so that it does not notice. For the keeper
 * alone: SIGCHLD must be blocked and at its default, and the caller must have no other children.
 */

#include "base/err.h"
#include "base/map.h"
#include "target/image.h"

/* What a process that stops others calls itself. */
#define MT_STOP_KEEPERS_NAME "memtrack-keeper"

enum mt_stop_state { MT_STOP_SEIZED = 0, MT_STOP_STOPPED, MT_STOP_GONE };

struct mt_stop_thread {
	pid_t tid;
	enum mt_stop_state state;
};

/* All-zero is valid: nothing is stopped. */
struct mt_stop {
	pid_t pid;
	struct mt_stop_thread *thread; /* owned */
	size_t count, cap;
	struct mt_map by_tid; /* tid -> index */
	uint64_t began_ns;    /* of CLOCK_MONOTONIC: when the first thread was told to stop */
	pid_t refused;        /* the last thread that could not be seized */
};

/*
 * Stops every thread. Threads that wait in the kernel and cannot be stopped stay
 * MT_STOP_SEIZED. One that another keeper holds is waited for, a fifth of a second at most. 0, or a
 * negative errno value with *err: then s is to be released, too.
 */
int mt_stop_all(struct mt_stop *s, pid_t pid, struct mt_err *err);

/* Lets all threads go on as they would have. */
void mt_stop_release(struct mt_stop *s);

/*
 * Threads that could not be stopped before, and stop only now that the process goes on, go on,
 * too. How many may still come.
 */
size_t mt_stop_release_late(struct mt_stop *s);

/* Frees the tables. */
void mt_stop_done(struct mt_stop *s);

/* The registers of a stopped thread. */
void mt_stop_registers(pid_t tid, struct mt_image_thread *ret_thread);

/*
 * Waits for a change of one tracee, at most until deadline_ns (of CLOCK_MONOTONIC). 0 with
 * *ret_status as of waitpid(), or a negative errno value.
 */
int mt_stop_wait(pid_t tid, uint64_t deadline_ns, int *ret_status);

#endif
