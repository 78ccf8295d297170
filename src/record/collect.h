/* SPDX-License-Identifier: MIT */
#ifndef MT_RECORD_COLLECT_H
#define MT_RECORD_COLLECT_H

/*
 * Takes finished state files out of a private directory: each is compacted to the path its pattern
 * gives, then removed. A file is never removed before its compact form is complete; one that cannot
 * be written stays where it is. A series of snapshots beside a state file goes with it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/cleanup.h"
#include "base/err.h"

enum mt_collect_kind {
	MT_COLLECTED, /* finished; path is the compact file */
	MT_RUNNING,   /* its process runs; path is the live file */
	MT_KEPT,      /* finished but not moved: why says why; path is where it stays */
	MT_LARGE, /* finished, but more than the budget allows to move; path is where it stays */
};

struct mt_collect_item {
	enum mt_collect_kind kind;
	pid_t pid;
	char *path;        /* owned */
	char *program;     /* owned; last part of the executable's path */
	char *why;         /* owned; NULL unless MT_KEPT */
	char *series;      /* owned; NULL: it has no snapshots, or they could not be moved: */
	char *series_why;  /* owned; where they stay, and why; NULL: they were moved */
	uint64_t start_ns; /* of its process's program, monotonic clock */
	bool is_stray;     /* it lay in a directory that its process made for itself */
};

struct mt_collection {
	struct mt_collect_item *item; /* owned; of each directory in order of pid and start */
	size_t count, capacity;
};

/* NULL is allowed. */
void mt_collection_done(struct mt_collection *c);
MT_AUTO_DEFINE_INPLACE(mt_collection, struct mt_collection, mt_collection_done)

/* What is known of one process of the tree: `pid` ended as `status` (from waitpid). pid 0: nothing.
 */
struct mt_collect_end {
	pid_t pid;
	int status;
};

/*
 * Collects the directory's `PID.SEQ.mtk` files and appends what became of each to *collection. An
 * empty pattern means the one that each file names itself. 0, or a negative errno value with *err
 * when the directory cannot be read or there is no memory.
 */
int mt_collect_dir(const char *dir, const char *pattern, const struct mt_collect_end *end,
		   struct mt_collection *collection, struct mt_err *err);

/*
 * Collects files of the launcher's tree that lie elsewhere, because the process could not write to
 * the launcher's directory: it gave up root, say. They are found in the directories that processes
 * of this launcher made (of every user, when we are root); in their headers, by the launcher that
 * they name, and by their time: this boot, and not before `since_ns` of the monotonic clock. No
 * other directory is opened. Other arguments and the result as above; a directory that this emptied
 * is removed.
 */
struct mt_collect_launcher {
	pid_t pid;
	uint64_t since_ns;
};
int mt_collect_strays(const struct mt_collect_launcher *launcher, const char *pattern,
		      const struct mt_collect_end *end, struct mt_collection *collection,
		      struct mt_err *err);

/*
 * Collects one file of a run that goes on: its process has ended, or wrote a later file, and nobody
 * has it mapped. Where the pattern does not tell processes apart, the name that comes first is left
 * for the states of `program`, the launcher's own child. 0; -EBUSY: its process may still run; or
 * another negative errno value: then it stays, and nothing is appended. mt_collection_sort() at the
 * end brings everything into one order.
 */
struct mt_collect_ended {
	const char *dir;   /* how its directory is reached */
	const char *shown; /* the directory's name in messages */
	const char *name;
	bool is_replaced; /* its process wrote a later file */
	bool is_stray;
	pid_t program;
};
int mt_collect_ended(const struct mt_collect_ended *file, const char *pattern,
		     struct mt_collection *collection);

/* As if all had been collected at once: the launcher's directory, then strays, by pid and start. */
void mt_collection_sort(struct mt_collection *c);

/* How much work mt_collect_abandoned() may take upon itself. */
struct mt_collect_budget {
	size_t first;   /* where to begin, any number; random: then nothing comes last always */
	uint32_t steps; /* directories and files that are looked at, in all */
	uint64_t file_bytes; /* files that store more are left: MT_LARGE */
	uint64_t end_ns;     /* no step after the first file begins later (monotonic clock) */
};

/*
 * Collects this user's private directories whose launcher is gone and removes those that became
 * empty. Files that cannot be moved are removed MT_COLLECT_KEEP_DAYS after their last change.
 * Directories with a living launcher are left alone. Never fails: what cannot be done now is left
 * for the next time. budget: NULL for everything. Returns whether everything was looked at.
 */
bool mt_collect_abandoned(const struct mt_collect_budget *budget, struct mt_collection *collection);
enum { MT_COLLECT_KEEP_DAYS = 7 };

#endif
