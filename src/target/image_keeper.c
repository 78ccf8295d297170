/* SPDX-License-Identifier: MIT */
/*
 * The keeper is a fork of ours in a process group of its own, with all signals blocked, so that
 * what ends us does not end it in the middle of its work. It sends what it found through a socket,
 * and undoes everything when the socket's other end is closed, by us or by our end.
 */

#include "target/image_keeper.h"

#include "base/alloc.h"
#include "core/cc.h"
#include "core/sys.h"
#include "target/image_copy.h"
#include "target/image_process.h"
#include "target/image_stop.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

enum { LATE_MS = 20 };

struct mt_keeper {
	pid_t pid;
	int fd;
};

/* What goes through the socket; behind it the threads. */
struct message {
	int32_t code; /* 0, or negative errno: nothing was done */
	pid_t copy;
	uint64_t began_ns, stop_ns, faults;
	uint64_t thread_count;
	struct mt_err err;
};

/* ---- the keeper ---- */

static int send_all(int fd, const void *data, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = send(fd, (const char *)data + done, bytes - done, MSG_NOSIGNAL);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		done += (size_t)n;
	}
	return 0;
}

/* All threads and their registers; NULL: no memory. */
static struct mt_image_thread *list_threads(const struct mt_stop *s, uint64_t *ret_count)
{
	struct mt_image_thread *list = mt_alloc_zero(s->count + 1, sizeof(*list));

	*ret_count = 0;
	for (size_t i = 0; list && i < s->count; i++)
		if (s->thread[i].state != MT_STOP_GONE)
			mt_stop_registers(s->thread[i].tid, &list[(*ret_count)++]);
	return list;
}

/* Until the other end is closed. */
static void wait_for_end(int fd, struct mt_stop *s, bool runs_on)
{
	for (;;) {
		int late = runs_on && mt_stop_release_late(s) ? LATE_MS : -1;
		struct pollfd p = {.fd = fd, .events = POLLIN};

		if (poll(&p, 1, late) > 0)
			return;
	}
}

static void keep(int fd, pid_t pid, bool wants_copy)
{
	struct message m = {.code = 0};
	struct mt_stop s = {0};
	struct mt_image_thread *threads = NULL;
	bool may_copy = wants_copy && !mt_copy_refuse(pid, &m.err);

	m.code = mt_stop_all(&s, pid, &m.err);
	m.began_ns = s.began_ns;
	if (!m.code) {
		threads = list_threads(&s, &m.thread_count);
		if (!threads)
			m.code = mt_err_no_memory(&m.err);
	}
	if (!m.code && may_copy)
		mt_copy_make(&s, &m.copy, &m.err);
	if (!m.code)
		m.err.code = 0; /* the reason, no failure */
	if (m.code || m.copy) {
		m.faults = mt_image_faults(pid);
		mt_stop_release(&s);
		m.stop_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - m.began_ns;
	}
	if (!send_all(fd, &m, sizeof(m)) &&
	    !send_all(fd, threads, m.thread_count * sizeof(*threads)) && !m.code)
		wait_for_end(fd, &s, m.copy != 0);
	mt_copy_end(m.copy);
	mt_stop_release(&s);
	mt_stop_done(&s);
	free(threads);
}

/* Nothing of ours but the socket, and nothing that reaches us alone. */
static void settle(int fd)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_SETMASK, &all, NULL);
	signal(SIGCHLD, SIG_DFL);
	setsid();
	prctl(PR_SET_NAME, MT_STOP_KEEPERS_NAME);
	/* files that are closed elsewhere are not to stay open because of us; standard error stays
	 */
	syscall(SYS_close_range, 0, 1, 0);
	if (fd > 3)
		syscall(SYS_close_range, 3, fd - 1, 0);
	syscall(SYS_close_range, fd + 1, ~0u, 0);
}

/* ---- our side ---- */

static int receive_all(int fd, void *to, size_t bytes)
{
	for (size_t done = 0; done < bytes;) {
		ssize_t n = read(fd, (char *)to + done, bytes - done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -EPIPE;
		done += (size_t)n;
	}
	return 0;
}

static int receive(int fd, struct mt_arena *arena, struct mt_keeper_result *r, struct mt_err *err)
{
	struct message m;
	size_t bytes;

	if (receive_all(fd, &m, sizeof(m)))
		return mt_err_set(err, -EPIPE, "the process that stops others was ended");
	if (err)
		*err = m.err;
	if (m.code)
		return m.code;
	*r = (struct mt_keeper_result){.copy = m.copy,
				       .thread_count = (size_t)m.thread_count,
				       .began_ns = m.began_ns,
				       .stop_ns = m.stop_ns,
				       .faults = m.faults};
	if (mt_mul_size(r->thread_count, sizeof(*r->threads), &bytes))
		return mt_err_no_memory(err);
	r->threads = mt_arena_alloc(arena, bytes);
	if (!r->threads)
		return mt_err_no_memory(err);
	if (receive_all(fd, r->threads, bytes))
		return mt_err_set(err, -EPIPE, "the process that stops others was ended");
	return 0;
}

/* In a fork: does not come back. */
static void run_keeper(int fd, int other_fd, pid_t pid, bool wants_copy)
{
	close(other_fd);
	settle(fd);
	keep(fd, pid, wants_copy);
	_exit(0);
}

int mt_keeper_start(pid_t pid, bool wants_copy, struct mt_arena *arena,
		    struct mt_keeper **ret_keeper, struct mt_keeper_result *ret_result,
		    struct mt_err *err)
{
	struct mt_keeper *k = mt_alloc_zero(1, sizeof(*k));
	int fds[2], code;

	if (!k)
		return mt_err_no_memory(err);
	if (pid == getpid()) {
		free(k);
		return mt_image_refuse(pid, -EINVAL, err);
	}
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
		free(k);
		return mt_err_set_errno(err, errno, "cannot make a socket");
	}
	k->fd = fds[0];
	k->pid = fork();
	if (!k->pid)
		run_keeper(fds[1], fds[0], pid, wants_copy);
	close(fds[1]);
	if (k->pid < 0) {
		code = mt_err_set_errno(err, errno, "cannot start a process");
		k->pid = 0;
	} else {
		code = receive(k->fd, arena, ret_result, err);
	}
	if (code)
		mt_keeper_end(k);
	else
		*ret_keeper = k;
	return code;
}

void mt_keeper_end(struct mt_keeper *k)
{
	int status;

	if (!k)
		return;
	close(k->fd);
	while (k->pid > 0 && waitpid(k->pid, &status, 0) < 0 && errno == EINTR)
		continue;
	free(k);
}
