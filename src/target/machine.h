/* SPDX-License-Identifier: MIT */
#ifndef MT_TARGET_MACHINE_H
#define MT_TARGET_MACHINE_H

/*
 * The memory of the whole machine, from a text of /proc/meminfo, and of a control group, versions 1
 * and 2: both as parts that add up, as far as the kernel names them. Thread-safe.
 */

#include "base/cleanup.h"
#include "base/err.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

/* A part of a whole, or a figure beside it. */
struct mt_part {
	const char *name; /* "free", "page cache" */
	const char *what; /* a sentence's worth of explanation */
	const char *key;  /* what machine formats call it */
	uint64_t bytes;
};
enum { MT_PARTS_MAX = 24 };

struct mt_whole {
	uint64_t bytes; /* of all parts, rest included */
	struct mt_part part[MT_PARTS_MAX];
	size_t parts;
	int64_t rest_bytes; /* that no part names; negative: parts overlap by that much */
	/* others, which are no parts */
	struct mt_part fact[MT_PARTS_MAX];
	size_t facts;
};

/* The fact with this key; MT_MEMORY_UNKNOWN without. */
uint64_t mt_whole_fact(const struct mt_whole *w, const char *key);

/* A text of /proc/meminfo: 0, or -EINVAL when it is none, with *err. `name` is for messages. */
int mt_machine_parse(const char *text, const char *name, struct mt_whole *ret_whole,
		     struct mt_err *err);
int mt_machine_read(struct mt_whole *ret_whole, struct mt_err *err);

/* Bytes that new uses can have without swapping, as the kernel estimates; UINT64_MAX: not known. */
uint64_t mt_machine_room(void);

struct mt_cgroup {
	char folder[4096];
	int version;
	struct mt_whole memory;
	pid_t *pid; /* owned: of the group and all below it, by number; ended by 0 */
	size_t pids;
};

/*
 * A control group: a folder, or a path as in /proc/PID/cgroup, which is looked for where control
 * groups are usually mounted. 0; -ENOENT, or another negative errno value, with *err.
 */
int mt_cgroup_read(const char *path, struct mt_cgroup *ret_group, struct mt_err *err);
/*
 * The path of the group with the memory controller in a text of /proc/PID/cgroup: of version 1 if
 * there is one, else of version 2. false: there is none, or it is too long for `path`.
 */
bool mt_cgroup_parse_path(const char *text, char *path, size_t bytes);

/*
 * Bytes that the control groups of a process leave to it until the nearest limit, page cache
 * counted as free; UINT64_MAX without a limit, or when it is not known.
 */
uint64_t mt_cgroup_room(pid_t pid);

void mt_cgroup_done(struct mt_cgroup *g);
MT_AUTO_DEFINE_INPLACE(mt_cgroup, struct mt_cgroup, mt_cgroup_done)

#endif
