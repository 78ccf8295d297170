/* SPDX-License-Identifier: MIT */
/* Programs that every system has, and what they do. */

#include "record/trial.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/escape.h"
#include "base/file.h"
#include "core/cc.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

enum { WAIT_NS = 10000000, WAITS = 2000, OUTPUT_MAX = 4096 };

struct trial {
	const char *path;
	const char *arg[3];
	int status;
	const char *output;
};

static const struct trial trials[] = {
	{.path = "/bin/true", .arg = {"true"}, .output = ""},
	{.path = "/bin/false", .arg = {"false"}, .status = 1, .output = ""},
	{.path = "/bin/sh", .arg = {"sh", "-c", "exit 7"}, .status = 7, .output = ""},
	{.path = "/bin/sh",
	 .arg = {"sh", "-c", "echo one; (echo two); for i in 3 4; do echo $i; done | cat"},
	 .output = "one\ntwo\n3\n4\n"},
	{.path = "/bin/ls", .arg = {"ls", "-d", "/"}, .output = "/\n"},
};

/* A file in memory for output, so that nobody has to read while the program runs. */
static int output_file(void)
{
	return memfd_create("memtrack-trial", MFD_CLOEXEC);
}

/* Waits for the end, 20 s at most; then the program is killed. -ETIME. */
static int wait_for(pid_t pid, int *ret_status)
{
	const struct timespec pause = {0, WAIT_NS};

	for (int i = 0; i < WAITS; i++) {
		pid_t got = waitpid(pid, ret_status, WNOHANG);

		if (got == pid)
			return 0;
		if (got < 0 && errno != EINTR)
			return -errno;
		nanosleep(&pause, NULL);
	}
	kill(pid, SIGKILL);
	waitpid(pid, ret_status, 0);
	return -ETIME;
}

static int spawn(const struct trial *t, char *const *environment, int out, int err_out,
		 int *ret_status)
{
	char *argv[] = {(char *)t->arg[0], (char *)t->arg[1], (char *)t->arg[2], NULL};
	posix_spawn_file_actions_t actions;
	pid_t pid;
	int code = posix_spawn_file_actions_init(&actions);

	if (code)
		return -code;
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, out, 1);
	posix_spawn_file_actions_adddup2(&actions, err_out, 2);
	code = posix_spawn(&pid, t->path, &actions, NULL, argv, environment);
	posix_spawn_file_actions_destroy(&actions);
	return code ? -code : wait_for(pid, ret_status);
}

/* What a program has written; the caller frees. NULL: no memory. */
static char *read_output(int fd)
{
	char *text = mt_alloc(OUTPUT_MAX + 1);
	ssize_t n = text ? mt_file_pread(fd, text, OUTPUT_MAX, 0) : -1;

	if (text)
		text[n > 0 ? n : 0] = 0;
	return text;
}

static int judge(const struct trial *t, int status, const char *out, const char *err_out,
		 struct mt_err *err)
{
	mt_auto(mt_buf) struct mt_buf line = {0};
	mt_auto(mt_buf) struct mt_buf first = {0};

	mt_buf_add(&first, err_out, strcspn(err_out, "\n"));
	mt_escape(&line, mt_buf_text(&first));
	if (WIFSIGNALED(status))
		return mt_err_set(err, -ENOEXEC, "in the trial '%s' died of signal %d", t->path,
				  WTERMSIG(status));
	if (*err_out)
		return mt_err_set(err, -ENOEXEC, "in the trial '%s' had this to say: %s", t->path,
				  mt_buf_text(&line));
	if (WEXITSTATUS(status) != t->status)
		return mt_err_set(err, -ENOEXEC, "in the trial '%s' ended with status %d, not %d",
				  t->path, WEXITSTATUS(status), t->status);
	if (strcmp(out, t->output))
		return mt_err_set(err, -ENOEXEC, "in the trial '%s' had another output", t->path);
	return 0;
}

static int try_one(const struct trial *t, char *const *environment, struct mt_err *err)
{
	mt_auto(close) int out = output_file();
	mt_auto(close) int err_out = output_file();
	mt_auto(free) char *out_text = NULL, *err_text = NULL;
	int status = 0, code;

	if (out < 0 || err_out < 0)
		return mt_err_set_errno(err, errno, "cannot try '%s'", t->path);
	code = spawn(t, environment, out, err_out, &status);
	if (code == -ETIME)
		return mt_err_set(err, -ENOEXEC, "in the trial '%s' did not come to an end",
				  t->path);
	if (code)
		return mt_err_set_errno(err, code, "cannot try '%s'", t->path);
	out_text = read_output(out);
	err_text = read_output(err_out);
	if (!out_text || !err_text)
		return mt_err_no_memory(err);
	return judge(t, status, out_text, err_text, err);
}

int mt_trial_run(char *const *environment, struct mt_err *err)
{
	unsigned tried = 0;

	for (size_t i = 0; i < MT_ARRAY_LEN(trials); i++) {
		int code;

		if (access(trials[i].path, X_OK))
			continue;
		tried++;
		code = try_one(&trials[i], environment, err);
		if (code)
			return code;
	}
	return tried ? 0
		     : mt_err_set(err, -ENOEXEC,
				  "there is no program to try it with: neither "
				  "/bin/sh nor /bin/true");
}
