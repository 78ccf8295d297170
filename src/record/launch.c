/* SPDX-License-Identifier: MIT */
/*
 * Starting and waiting. Between fork and exec the child calls async-signal-safe functions only. The
 * handler forwards a signal when a process sent it; what the terminal sends reaches the program
 * itself.
 */

#include "record/launch.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "core/cc.h"
#include "wire/check_options.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>

static const int forwarded[] = {SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};
enum { FORWARDED = MT_ARRAY_LEN(forwarded) };

static volatile sig_atomic_t child_pid;           /* 0: not started or reaped */
static const struct mt_launch *volatile launched; /* whose SIGUSR2 is ours; NULL: none */

static void forward(int sig, siginfo_t *info, void *context)
{
	const struct mt_launch *l = launched;
	int saved = errno;
	pid_t child = child_pid;

	if (sig == SIGUSR2 && l) {
		l->on_usr2(l->usr2_context);
		errno = saved;
		return;
	}
	/* the child signalling its own process group has already reached itself */
	if (child > 0 && info->si_code <= 0 && info->si_pid != child)
		kill(child, sig);
	errno = saved;
}

/* Holds the forwarded signals back: one that came before child_pid is set would be lost. */
static void hold_signals(sigset_t *ret_before)
{
	sigset_t set;

	sigemptyset(&set);
	for (int i = 0; i < FORWARDED; i++)
		sigaddset(&set, forwarded[i]);
	sigprocmask(SIG_BLOCK, &set, ret_before);
}

static void install_handlers(const struct mt_launch *l, struct sigaction *ret_old)
{
	struct sigaction sa = {.sa_sigaction = forward, .sa_flags = SA_SIGINFO | SA_RESTART};

	sigemptyset(&sa.sa_mask);
	launched = l->on_usr2 ? l : NULL;
	for (int i = 0; i < FORWARDED; i++) {
		bool is_own = l->on_usr2 && forwarded[i] == SIGUSR2;

		sigaction(forwarded[i], NULL, &ret_old[i]);
		/* a signal that was ignored when we started (nohup) stays ignored */
		if (ret_old[i].sa_handler != SIG_IGN || is_own)
			sigaction(forwarded[i], &sa, NULL);
	}
}

static void restore_handlers(const struct sigaction *old)
{
	for (int i = 0; i < FORWARDED; i++)
		sigaction(forwarded[i], &old[i], NULL);
}

static bool is_ours(const char *entry)
{
	static const char *const names[] = {
		"LD_PRELOAD=",         "MEMTRACK_MODE=",     "MEMTRACK_OPTIONS=",
		"MEMTRACK_STATE_DIR=", "MEMTRACK_LAUNCHER=", MT_CHECK_VARIABLE "=",
	};

	for (size_t i = 0; i < MT_ARRAY_LEN(names); i++)
		if (!strncmp(entry, names[i], strlen(names[i])))
			return true;
	return false;
}

/* The user's preloads without ours in front: a tracked memtrack does not preload it twice. */
static const char *skip_library(const char *preload, const char *library)
{
	size_t len = strlen(library);

	if (strncmp(preload, library, len) || (preload[len] && !strchr(": ", preload[len])))
		return preload;
	return preload + len + (preload[len] != 0);
}

/* Our words, each followed by a NUL. */
static int add_words(const struct mt_launch *l, char *const *env, pid_t launcher, struct mt_buf *b)
{
	const char *preload = NULL;

	for (char *const *e = env; *e; e++)
		if (!strncmp(*e, "LD_PRELOAD=", strlen("LD_PRELOAD=")))
			preload = *e + strlen("LD_PRELOAD=");
	if (preload)
		preload = skip_library(preload, l->library);
	mt_buf_printf(b, "LD_PRELOAD=%s%s%s%c", l->library, preload && *preload ? ":" : "",
		      preload ? preload : "", 0);
	mt_buf_printf(b, "MEMTRACK_MODE=full%c", 0);
	mt_buf_printf(b, "MEMTRACK_OPTIONS=%s%c", l->options, 0);
	mt_buf_printf(b, "MEMTRACK_STATE_DIR=%s%c", l->state_dir, 0);
	mt_buf_printf(b, "MEMTRACK_LAUNCHER=%d%c", (int)launcher, 0);
	if (l->check)
		mt_buf_printf(b, MT_CHECK_VARIABLE "=%s%c", l->check, 0);
	return b->failed ? -ENOMEM : 0;
}

char **mt_launch_environment(const struct mt_launch *launch, char *const *env, pid_t launcher)
{
	enum { WORDS = 6 };
	mt_auto(mt_buf) struct mt_buf words = {0};
	size_t count = 0, n = 0;
	char **out, *text;

	while (env[count])
		count++;
	if (add_words(launch, env, launcher, &words))
		return NULL;
	out = mt_alloc((count + WORDS + 1) * sizeof(*out) + words.len);
	if (!out)
		return NULL;
	text = (char *)(out + count + WORDS + 1);
	memcpy(text, words.data, words.len);
	for (size_t i = 0; i < count; i++)
		if (!is_ours(env[i]))
			out[n++] = env[i];
	for (char *end = text + words.len; text < end; text += strlen(text) + 1)
		out[n++] = text;
	out[n] = NULL;
	return out;
}

/* What the signals did before we came. */
struct signals {
	struct sigaction old[FORWARDED];
	sigset_t mask;
};

static void run_child(const struct mt_launch *l, char **env, const struct signals *before,
		      int report_fd) __attribute__((noreturn));

static void run_child(const struct mt_launch *l, char **env, const struct signals *before,
		      int report_fd)
{
	int code;

	restore_handlers(before->old);
	sigprocmask(SIG_SETMASK, &before->mask, NULL);
	execve(l->path, l->argv, env);
	code = errno;
	(void)!write(report_fd, &code, sizeof(code));
	_exit(127);
}

static int wait_for(pid_t pid, int *ret_status)
{
	pid_t got;

	do
		got = waitpid(pid, ret_status, 0);
	while (got < 0 && errno == EINTR);
	return got < 0 ? -errno : 0;
}

/* Starts the child and waits until exec worked (the pipe closes) or reported its errno. */
static int start(const struct mt_launch *l, char **env, const struct signals *before,
		 pid_t *ret_pid)
{
	int fds[2], code = 0, status;
	ssize_t got;
	pid_t pid;

	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	pid = fork();
	if (!pid)
		run_child(l, env, before, fds[1]);
	if (pid < 0)
		code = -errno;
	close(fds[1]);
	if (pid > 0) {
		child_pid = pid;
		if (l->on_start)
			l->on_start(l->start_context, pid);
		sigprocmask(SIG_SETMASK, &before->mask, NULL);
		do
			got = read(fds[0], &code, sizeof(code));
		while (got < 0 && errno == EINTR);
		code = got == sizeof(code) ? -code : 0;
		if (code) {
			child_pid = 0;
			wait_for(pid, &status);
		}
	}
	close(fds[0]);
	*ret_pid = pid;
	return code;
}

int mt_launch_run(const struct mt_launch *launch, struct mt_launch_end *ret_end, struct mt_err *err)
{
	mt_auto(free) char **env = mt_launch_environment(launch, environ, getpid());
	struct signals before;
	struct mt_launch_end end = {0};
	int code;

	if (!env)
		return mt_err_no_memory(err);
	hold_signals(&before.mask);
	install_handlers(launch, before.old);
	code = start(launch, env, &before, &end.pid);
	if (!code)
		code = wait_for(end.pid, &end.status);
	child_pid = 0;
	restore_handlers(before.old);
	launched = NULL;
	sigprocmask(SIG_SETMASK, &before.mask, NULL); /* where nothing was started */
	if (code)
		return mt_err_set_errno(err, code, "cannot run '%s'", launch->path);
	*ret_end = end;
	return 0;
}

static char *take_if_file(char *path)
{
	if (path && !access(path, R_OK))
		return path;
	free(path);
	return NULL;
}

char *mt_launch_find_library(const char *libdir, struct mt_err *err)
{
	static const char *const beside[] = {"libmemtrack.so", "../lib/libmemtrack.so"};
	const char *asked = getenv("MEMTRACK_LIB");
	char self[PATH_MAX], *found = NULL;
	ssize_t len = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (asked && *asked) {
		found = realpath(asked, NULL);
		if (!found)
			mt_err_set_errno(err, errno, "cannot use '%s' (from MEMTRACK_LIB)", asked);
		return found;
	}
	self[len > 0 ? len : 0] = 0;
	for (size_t i = 0; i < MT_ARRAY_LEN(beside) && !found && *self; i++) {
		mt_auto(free) char *dir = mt_path_dir(self);

		found = dir ? take_if_file(mt_path_join(dir, beside[i])) : NULL;
	}
	if (!found)
		found = take_if_file(mt_path_join(libdir, "libmemtrack.so"));
	if (!found && len < 0)
		mt_err_set(err, -ENOENT,
			   "cannot read '/proc/self/exe', which tells where memtrack is; mount "
			   "/proc, or set MEMTRACK_LIB to the path of libmemtrack.so");
	else if (!found)
		mt_err_set(err, -ENOENT,
			   "cannot find 'libmemtrack.so' beside memtrack or in '%s'; set "
			   "MEMTRACK_LIB to its path",
			   libdir);
	return found;
}

void mt_launch_end_like(int status)
{
	struct rlimit none = {0, 0};
	sigset_t set;
	int sig;

	if (WIFEXITED(status))
		exit(WEXITSTATUS(status));
	sig = WTERMSIG(status);
	fflush(NULL);
	/* the program left its core; ours would hide it */
	setrlimit(RLIMIT_CORE, &none);
	signal(sig, SIG_DFL);
	sigemptyset(&set);
	sigaddset(&set, sig);
	sigprocmask(SIG_UNBLOCK, &set, NULL);
	raise(sig);
	exit(128 + sig);
}
