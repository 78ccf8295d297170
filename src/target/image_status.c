/* SPDX-License-Identifier: MIT */
/* /proc/PID/status and stat, and which rule forbids to look into a process. */

#include "target/image_process.h"

#include "base/file.h"
#include "base/lines.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_MAX = 65536, FIELD_FAULTS = 10, FIELD_STATE = 3 };

/* The text behind "KEY:" and blanks, or NULL. */
static const char *value_of(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = text; line && *line; line = mt_line_behind(line)) {
		if (!strncmp(line, key, len) && line[len] == ':')
			return line + len + 1 + strspn(line + len + 1, " \t");
	}
	return NULL;
}

static uint64_t number_of(const char *text, const char *key, int base)
{
	const char *value = value_of(text, key);

	return value ? strtoull(value, NULL, base) : 0;
}

/* The last, or the second, of the numbers of a line. */
static uint64_t later_number(const char *text, const char *key, unsigned most)
{
	const char *value = value_of(text, key);
	uint64_t number = 0;

	for (unsigned i = 0; value && i < most; i++) {
		char *end;
		uint64_t next = strtoull(value, &end, 10);

		/* blanks that strtoull() skips include the end of the line */
		if (end == value || memchr(value, '\n', (size_t)(end - value)))
			break;
		number = next;
		value = end;
	}
	return number;
}

void mt_image_parse_status(const char *text, struct mt_image_status *ret_status)
{
	const char *name = value_of(text, "Name"), *state = value_of(text, "State");

	*ret_status = (struct mt_image_status){
		.state = state ? *state : '?',
		.tracer = number_of(text, "TracerPid", 10),
		.uid = later_number(text, "Uid", 2),
		.seccomp = number_of(text, "Seccomp", 10),
		.inner_pid = later_number(text, "NSpid", 32),
		.parent = number_of(text, "PPid", 10),
		.has_memory = value_of(text, "VmSize") != NULL,
		.blocked = number_of(text, "SigBlk", 16),
		.caught = number_of(text, "SigCgt", 16),
		.ignored = number_of(text, "SigIgn", 16),
		.pending = number_of(text, "SigPnd", 16),
		.shared_pending = number_of(text, "ShdPnd", 16),
	};
	if (name)
		snprintf(ret_status->name, sizeof(ret_status->name), "%.*s",
			 (int)strcspn(name, "\n"), name);
}

int mt_image_read_status(pid_t pid, pid_t tid, struct mt_image_status *ret_status)
{
	mt_auto(free) char *text = NULL;
	char path[64];
	size_t len;
	int code;

	if (tid)
		snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid, (int)tid);
	else
		snprintf(path, sizeof(path), "/proc/%d/status", (int)pid);
	code = mt_file_read(path, TEXT_MAX, &text, &len, NULL);
	if (code)
		return code == -ENOENT ? -ESRCH : code;
	mt_image_parse_status(text, ret_status);
	return 0;
}

static uint64_t yama_scope(void)
{
	mt_auto(free) char *text = NULL;
	size_t len;

	if (mt_file_read("/proc/sys/kernel/yama/ptrace_scope", TEXT_MAX, &text, &len, NULL))
		return 0;
	return strtoull(text, NULL, 10);
}

/* A thread that still has the memory of a process whose main thread has ended, or 0. */
static pid_t living_thread(pid_t pid)
{
	struct mt_image_status s;
	char path[64];
	pid_t found = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	if (!d)
		return 0;
	for (struct dirent *e; !found && (e = readdir(d));) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);

		if (tid > 0 && tid != pid && !mt_image_read_status(pid, tid, &s) && s.has_memory)
			found = tid;
	}
	closedir(d);
	return found;
}

int mt_image_refuse_headless(pid_t pid, struct mt_err *err)
{
	struct mt_image_status s;
	pid_t tid;

	if (mt_image_read_status(pid, 0, &s) || s.has_memory || s.state != 'Z')
		return 0;
	tid = living_thread(pid);
	return tid ? mt_err_set(err, -ESRCH,
				"the main thread of process %d has ended, and others run on: its "
				"memory cannot be looked at by this number; use that of another "
				"thread, %d",
				(int)pid, (int)tid)
		   : 0;
}

/* Rules that hold whatever the call said. 0: none of them. */
static int refuse_kind(pid_t pid, const struct mt_image_status *s, struct mt_err *err)
{
	if (pid == getpid())
		return mt_err_set(err, -EINVAL, "process %d is memtrack itself", (int)pid);
	if (mt_image_refuse_headless(pid, err))
		return -ESRCH;
	if (s->state == 'Z' || s->state == 'X')
		return mt_err_set(err, -ESRCH,
				  "process %d has ended: its memory is gone, and only its parent "
				  "has yet to ask for its status (zombie)",
				  (int)pid);
	if (!s->has_memory)
		return mt_err_set(err, -EINVAL, "process %d is a thread of the kernel", (int)pid);
	return 0;
}

static int refuse_right(pid_t pid, const struct mt_image_status *s, int code, struct mt_err *err)
{
	struct mt_image_status tracer;
	uint64_t scope = yama_scope();

	if (s->tracer)
		return mt_err_set(err, code,
				  "process %d is traced by process %" PRIu64 " (%s), and can have "
				  "one tracer only",
				  (int)pid, s->tracer,
				  mt_image_read_status((pid_t)s->tracer, 0, &tracer) ? "?"
										     : tracer.name);
	if (geteuid() && s->uid != geteuid())
		return mt_err_set(err, code,
				  "process %d belongs to the user with number %" PRIu64
				  ": only that user and root may look into it",
				  (int)pid, s->uid);
	if (scope)
		return mt_err_set(err, code,
				  "process %d may not be looked into: Yama forbids it "
				  "(kernel.yama.ptrace_scope is %" PRIu64 "), %s",
				  (int)pid, scope, scope < 3 ? "but not to root" : "to everybody");
	if (geteuid())
		return mt_err_set(
			err, code,
			"process %d may not be looked into but by root: it has more rights "
			"than its user, or asked for it (PR_SET_DUMPABLE)",
			(int)pid);
	return mt_err_set_errno(err, code,
				"process %d may not be looked into; a security module or missing "
				"capabilities forbid it",
				(int)pid);
}

int mt_image_refuse(pid_t pid, int code, struct mt_err *err)
{
	struct mt_image_status s;

	code = code > 0 ? -code : code;
	if (pid <= 0 || mt_image_read_status(pid, 0, &s))
		return mt_err_set(err, -ESRCH, "there is no process %d", (int)pid);
	if (refuse_kind(pid, &s, err))
		return err ? err->code : code;
	if (code == -EPERM || code == -EACCES)
		return refuse_right(pid, &s, code, err);
	return mt_err_set_errno(err, code, "cannot look into process %d", (int)pid);
}

uint64_t mt_image_faults(pid_t pid)
{
	mt_auto(free) char *text = NULL;
	char path[64];
	const char *at;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	if (mt_file_read(path, TEXT_MAX, &text, &len, NULL))
		return 0;
	at = strrchr(text, ')');
	for (int field = FIELD_STATE - 1; at && field < FIELD_FAULTS; field++)
		at = strchr(at + 1, ' ');
	return at ? strtoull(at, NULL, 10) : 0;
}
