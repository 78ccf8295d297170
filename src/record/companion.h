/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_COMPANION_H
#define MT_RECORD_COMPANION_H

/*
 * The companion of a run: a thread of the launcher that visits the state files of the process tree
 * while the program runs. It sleeps until a task is due, takes no signals, and ends with a last
 * round. Nothing in the tracked processes waits for it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct mt_companion;

/* A state file as a task sees it; valid during the visit. */
struct mt_companion_file {
	int fd;           /* the file, open for reading; -1 at a LAST visit: it cannot be opened */
	int dir_fd;       /* its directory: files beside it are reached from here (openat) */
	const char *name; /* its name there: PID.SEQ.mtk */
	const char *path; /* of the file; for messages */
	pid_t pid;
	bool is_stray; /* in a directory that its process made for itself */
};

enum mt_companion_why {
	MT_COMPANION_DUE,  /* the first visit, and then after each period */
	MT_COMPANION_RUNG, /* somebody called mt_companion_ring(); it may be due as well */
	MT_COMPANION_LAST, /* its process has ended, became another program, or the run ends */
};

/*
 * What is to be done with every state file. visit is called in the companion's thread alone, never
 * twice at a time. *data is the task's own for this file, NULL at the first visit; each file's LAST
 * visit, which comes exactly once, is the time to give it up. A file that comes and goes between
 * two rounds gets the LAST visit only.
 */
struct mt_companion_task {
	uint64_t period_ns; /* from one visit to the next; 0: only when rung, and the last */
	void (*visit)(void *context, const struct mt_companion_file *file,
		      enum mt_companion_why why, void **data);
	void *context;
};

enum {
	MT_COMPANION_TASKS = 8,
	/* where the kernel does not tell of new files and ended processes they are looked for that
	   often, or as often as the task of the shortest period is due */
	MT_COMPANION_LOOK_MS = 500,
};

/*
 * Takes a file away, so that what ended does not take up memory until all have: called in the
 * companion's thread behind the LAST visits, once no process has the file mapped or open for
 * writing any more. is_replaced: its process wrote a later file. Returns MT_COMPANION_TAKEN,
 * MT_COMPANION_LEFT (it stays where it is, and is not asked for again), or a negative errno value:
 * then files are offered again after MT_COMPANION_RETRY_MS. What was not taken when the program
 * ends stays.
 */
typedef int mt_companion_take(void *context, const struct mt_companion_file *file,
			      bool is_replaced);
enum { MT_COMPANION_TAKEN, MT_COMPANION_LEFT };
enum { MT_COMPANION_RETRY_MS = 10000 };

/*
 * Starts the companion of the state directory `dir` and of the directories that processes of
 * launcher `launcher` make for themselves from `since_ns` of the monotonic clock on; one of these
 * is removed when its last file was taken. The tasks are copied, what they point to is borrowed
 * until mt_companion_stop(). Without tasks and take nothing is started and *ret_companion is NULL.
 * 0 or a negative errno value with *err.
 */
struct mt_companion_run {
	const char *dir;
	pid_t launcher;
	uint64_t since_ns;
	const struct mt_companion_task *task;
	size_t task_count;       /* at most MT_COMPANION_TASKS */
	mt_companion_take *take; /* NULL: files stay */
	void *take_context;
};
int mt_companion_start(const struct mt_companion_run *run, struct mt_companion **ret_companion,
		       struct mt_err *err);

/* All tasks visit all files now. From any thread or signal handler; NULL is allowed. */
void mt_companion_ring(struct mt_companion *c);

/*
 * After the program's end: the last visits, then the thread ends; returns when it has. A visit that
 * is under way is finished. NULL is allowed.
 */
void mt_companion_stop(struct mt_companion *c);

#endif
