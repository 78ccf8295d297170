/* SPDX-License-Identifier: MIT */
/*
 * Threads are seized, not attached to: no signal is sent, and when we end they go on by themselves.
 * A signal that arrives meanwhile is handed on at once, and the thread stopped behind it, so that
 * none has to be remembered. The kernel restarts most system calls that a stop interrupts; those
 * that would return EINTR are restarted here, when the thread goes on.
 */

#include "target/image_stop.h"

#include "base/alloc.h"
#include "core/cc.h"
#include "core/sys.h"
#include "target/image_keeper.h"
#include "target/image_process.h"

#include <dirent.h>
#include <elf.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>

enum { TRIES_MAX = 20, TRIES_UNTRACED_MAX = 3, TRY_NS = 4000000 };
enum { TAKERS_MAX = 64, TAKEN_STEPS = 100, TAKEN_NS = 100000 }; /* 10 ms for each */
enum { ROUNDS_MAX = 200, EVENT_STOP = 128 /* PTRACE_EVENT_STOP */ };
#define STOP_NS ((uint64_t)10000000000) /* for all threads */
#define DEEP_NS ((uint64_t)1000000000)  /* for those that wait in the kernel */
#define STEP_NS 20000000

/* ---- waiting ---- */

/* Waits for SIGCHLD, for a short while at most: its end proves nothing. */
static void wait_a_moment(void)
{
	struct timespec step = {.tv_nsec = STEP_NS};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGCHLD);
	sigtimedwait(&set, NULL, &step);
}

int mt_stop_wait(pid_t tid, uint64_t deadline_ns, int *ret_status)
{
	for (;;) {
		pid_t r = waitpid(tid, ret_status, __WALL | WNOHANG);

		if (r == tid)
			return 0;
		if (r < 0 && errno != EINTR)
			return -errno;
		if (mt_sys_clock_ns(MT_CLOCK_MONOTONIC) > deadline_ns)
			return -ETIMEDOUT;
		wait_a_moment();
	}
}

static struct mt_stop_thread *thread_of(struct mt_stop *s, pid_t tid)
{
	uint64_t at;

	return mt_map_get(&s->by_tid, (uint64_t)tid, &at) ? &s->thread[at] : NULL;
}

/* What a thread did. */
static void take_event(struct mt_stop_thread *t, int status)
{
	if (!WIFSTOPPED(status)) {
		t->state = MT_STOP_GONE;
	} else if (status >> 16 == EVENT_STOP) {
		t->state = MT_STOP_STOPPED;
	} else {
		/* on its way to a handler: stopped anew where that begins */
		ptrace(PTRACE_INTERRUPT, t->tid, 0, 0);
		ptrace(PTRACE_CONT, t->tid, 0,
		       status >> 16 ? (uintptr_t)0 : (uintptr_t)WSTOPSIG(status));
	}
}

/* Whether all that do not stop wait in the kernel; threads that are gone are noticed. */
static bool are_all_deep(struct mt_stop *s)
{
	bool all = true;

	for (size_t i = 0; i < s->count; i++) {
		struct mt_stop_thread *t = &s->thread[i];
		struct mt_image_status status;

		if (t->state != MT_STOP_SEIZED)
			continue;
		if (mt_image_read_status(s->pid, t->tid, &status) || status.state == 'Z' ||
		    status.state == 'X')
			t->state = MT_STOP_GONE;
		else
			all &= status.state == 'D';
	}
	return all;
}

/*
 * Until a thread is stopped or gone; false: it is not to be waited for. For this one alone: the
 * kernel looks through all of them to answer whether any has stopped.
 */
static bool wait_for(struct mt_stop *s, struct mt_stop_thread *t, uint64_t began)
{
	while (t->state == MT_STOP_SEIZED) {
		int status;
		pid_t tid = waitpid(t->tid, &status, __WALL | WNOHANG);
		uint64_t ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC) - began;

		if (tid == t->tid)
			take_event(t, status);
		else if (tid < 0 && errno == ECHILD)
			t->state = MT_STOP_GONE; /* another thread's exec ended it */
		else if (ns > STOP_NS || (ns > DEEP_NS && are_all_deep(s)))
			return false;
		else
			wait_a_moment();
	}
	return true;
}

/* All were told to stop and do so at the same time. One that waits in the kernel hides no other. */
static void wait_for_all(struct mt_stop *s)
{
	uint64_t began = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	bool is_late = false;
	int status;

	for (size_t i = 0; i < s->count; i++) {
		struct mt_stop_thread *t = &s->thread[i];

		if (!is_late)
			is_late = !wait_for(s, t, began);
		else if (t->state == MT_STOP_SEIZED &&
			 waitpid(t->tid, &status, __WALL | WNOHANG) == t->tid)
			take_event(t, status);
	}
}

/* ---- stopping ---- */

static int add_thread(struct mt_stop *s, pid_t tid)
{
	struct mt_stop_thread *grown =
		mt_alloc_grow(s->thread, &s->cap, s->count + 1, sizeof(*grown));

	if (!grown)
		return -ENOMEM;
	s->thread = grown;
	if (mt_map_set(&s->by_tid, (uint64_t)tid, s->count))
		return -ENOMEM;
	grown[s->count++] = (struct mt_stop_thread){.tid = tid};
	return 0;
}

/* 1: seized, 0: it is gone, or a negative errno value. */
static int seize(struct mt_stop *s, pid_t tid)
{
	struct mt_image_status status;
	int code;

	if (ptrace(PTRACE_SEIZE, tid, 0, (uintptr_t)PTRACE_O_TRACESYSGOOD)) {
		code = -errno;
		s->refused = tid;
		if (code == -ESRCH || mt_image_read_status(s->pid, tid, &status) ||
		    status.state == 'Z' || status.state == 'X')
			return 0; /* a leader that ended before its threads, too */
		return code;
	}
	code = add_thread(s, tid);
	if (code)
		return code;
	if (ptrace(PTRACE_INTERRUPT, tid, 0, 0))
		s->thread[s->count - 1].state = MT_STOP_GONE;
	return 1;
}

/* Seizes threads that are not known yet. How many, or a negative errno value. */
static int seize_new(struct mt_stop *s)
{
	char path[64];
	int seized = 0;
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)s->pid);
	d = opendir(path);
	if (!d)
		return -errno;
	for (struct dirent *e; seized >= 0 && (e = readdir(d));) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
		int r = tid > 0 && !thread_of(s, tid) ? seize(s, tid) : 0;

		seized = r < 0 ? r : seized + r;
	}
	closedir(d);
	return seized;
}

/* A failure leaves no thread on its way to a stop: each can be repaired. */
static int stop_once(struct mt_stop *s, pid_t pid, struct mt_err *err)
{
	s->pid = pid;
	s->began_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	for (unsigned round = 0; round < ROUNDS_MAX; round++) {
		int seized = seize_new(s);
		bool is_any = false;

		if (seized < 0) {
			wait_for_all(s);
			return mt_image_refuse(pid, seized, err);
		}
		if (seized) {
			wait_for_all(s);
			continue;
		}
		for (size_t i = 0; i < s->count; i++)
			is_any |= s->thread[i].state == MT_STOP_STOPPED;
		if (is_any)
			return 0;
		if (!s->count)
			return mt_image_refuse(pid, -ESRCH, err);
		return mt_err_set(err, -ETIMEDOUT,
				  "process %d cannot be stopped: it waits in the kernel, or is "
				  "frozen",
				  (int)pid);
	}
	return mt_err_set(err, -EAGAIN, "process %d starts threads faster than they can be stopped",
			  (int)pid);
}

/* Whether what kept us from a thread is over soon: another one of us, or nobody any more. */
static bool is_for_a_moment(const struct mt_stop *s, unsigned tries)
{
	struct mt_image_status status, tracer;

	if (mt_image_read_status(s->pid, s->refused, &status))
		return false;
	if (!status.tracer)
		return tries < TRIES_UNTRACED_MAX;
	return tries < TRIES_MAX && !mt_image_read_status((pid_t)status.tracer, 0, &tracer) &&
	       !strcmp(tracer.name, MT_STOP_KEEPERS_NAME);
}

int mt_stop_all(struct mt_stop *s, pid_t pid, struct mt_err *err)
{
	for (unsigned tries = 0;; tries++) {
		/* two that began at the same time are not to do so again */
		struct timespec pause = {.tv_nsec = TRY_NS + getpid() % 16 * (TRY_NS / 8)};
		int code = stop_once(s, pid, err);

		if (code != -EPERM || !is_for_a_moment(s, tries))
			return code;
		mt_stop_release(s);
		mt_stop_done(s);
		nanosleep(&pause, NULL);
	}
}

/* ---- going on ---- */

#if defined(__x86_64__)
/*
 * System calls that return EINTR after a stop, though no signal came. Each waits, and has done
 * nothing yet when it returns that.
 */
static bool is_interruptible(int64_t number)
{
	switch (number) {
	case SYS_read: /* sockets with a time limit, and some devices */
	case SYS_write:
	case SYS_readv:
	case SYS_writev:
	case SYS_semop:
	case SYS_semtimedop:
	case SYS_accept:
	case SYS_accept4:
	case SYS_connect:
	case SYS_recvfrom:
	case SYS_recvmsg:
	case SYS_recvmmsg:
	case SYS_sendto:
	case SYS_sendmsg:
	case SYS_sendmmsg:
	case SYS_io_getevents:
	case SYS_rt_sigtimedwait:
	case SYS_epoll_wait:
		return true;
	}
	return false;
}

/* The same of those that change the mask of signals while they wait. */
static bool has_mask(int64_t number)
{
	return number == SYS_epoll_pwait || number == 441 /* epoll_pwait2 */ ||
	       number == 333 /* io_pgetevents */ || number == 426 /* io_uring_enter */;
}

static bool is_syscall_at(pid_t tid, uint64_t address)
{
	uint64_t word;

	errno = 0;
	word = (uint64_t)ptrace(PTRACE_PEEKTEXT, tid, address, 0);
	return !errno && (word & 0xffff) == 0x050f;
}

/* Of some signals, those that something comes of where they are not blocked. */
static uint64_t effective(const struct mt_image_status *s, uint64_t signals)
{
	const uint64_t harmless = 1u << (SIGCHLD - 1) | 1u << (SIGCONT - 1) | 1u << (SIGURG - 1) |
				  1u << (SIGWINCH - 1);

	return signals & ~s->ignored & (~harmless | s->caught);
}

/* Whether a signal waits that the thread would take now. */
static bool is_signal_due(pid_t pid, pid_t tid)
{
	struct mt_image_status s;

	if (mt_image_read_status(pid, tid, &s))
		return true;
	return (effective(&s, s.pending | s.shared_pending) & ~s.blocked) != 0;
}

/* The same of a signal to the whole process, which any thread may take that does not block it. */
static bool is_shared_due(pid_t pid, pid_t tid)
{
	struct mt_image_status s;

	return !mt_image_read_status(pid, tid, &s) &&
	       (effective(&s, s.shared_pending) & ~s.blocked) != 0;
}

/*
 * A signal to the whole process would be due for each thread, and end the call of each, though only
 * one takes it. So one goes on before the others, and these wait until it has. False: there is
 * none, or it was not taken, as in a process that somebody else has stopped.
 */
static bool release_taker(struct mt_stop *s)
{
	const struct timespec step = {.tv_nsec = TAKEN_NS};
	struct mt_image_status status;

	if (mt_image_read_status(s->pid, 0, &status) || !effective(&status, status.shared_pending))
		return false;
	for (size_t i = 0; i < s->count; i++) {
		struct mt_stop_thread *t = &s->thread[i];

		if (t->state != MT_STOP_STOPPED || !is_shared_due(s->pid, t->tid))
			continue;
		ptrace(PTRACE_DETACH, t->tid, 0, 0);
		t->state = MT_STOP_GONE;
		for (unsigned k = 0; k < TAKEN_STEPS; k++) {
			if (!is_shared_due(s->pid, t->tid))
				return true;
			nanosleep(&step, NULL);
		}
		return false;
	}
	return false;
}

/*
 * Restarts the system call that returned EINTR because of the stop. One that had changed the mask
 * of signals gets its old one back first: what the call lets through comes when it begins anew,
 * and ends it as it should.
 */
static void repair(pid_t pid, pid_t tid)
{
	struct user_regs_struct r;
	struct iovec io = {&r, sizeof(r)};
	int64_t number;
	uint64_t mask;

	if (ptrace(PTRACE_GETREGSET, tid, (uintptr_t)NT_PRSTATUS, &io) || io.iov_len < sizeof(r))
		return;
	number = (int64_t)r.orig_rax;
	if (number < 0 || (int64_t)r.rax != -EINTR ||
	    !(is_interruptible(number) || has_mask(number)) || !is_syscall_at(tid, r.rip - 2))
		return;
	if (has_mask(number) && (ptrace(PTRACE_GETSIGMASK, tid, sizeof(mask), &mask) ||
				 ptrace(PTRACE_SETSIGMASK, tid, sizeof(mask), &mask)))
		return;
	if (is_signal_due(pid, tid))
		return;
	r.rip -= 2;
	r.rax = (uint64_t)number;
	r.orig_rax = UINT64_MAX;
	ptrace(PTRACE_SETREGSET, tid, (uintptr_t)NT_PRSTATUS, &io);
}
#else
/* The kernel keeps the first argument to itself: nothing can be restarted from outside. */
static void repair(pid_t pid, pid_t tid)
{
}

static bool release_taker(struct mt_stop *s)
{
	return false;
}
#endif

void mt_stop_release(struct mt_stop *s)
{
	for (unsigned i = 0; i < TAKERS_MAX && release_taker(s); i++)
		;
	for (size_t i = 0; i < s->count; i++) {
		struct mt_stop_thread *t = &s->thread[i];

		if (t->state != MT_STOP_STOPPED)
			continue;
		repair(s->pid, t->tid);
		ptrace(PTRACE_DETACH, t->tid, 0, 0);
		t->state = MT_STOP_GONE;
	}
}

size_t mt_stop_release_late(struct mt_stop *s)
{
	size_t missing = 0;

	for (size_t i = 0; i < s->count; i++) {
		struct mt_stop_thread *t = &s->thread[i];
		int status;

		if (t->state != MT_STOP_SEIZED)
			continue;
		if (waitpid(t->tid, &status, __WALL | WNOHANG) == t->tid)
			take_event(t, status);
		missing += t->state == MT_STOP_SEIZED;
	}
	mt_stop_release(s);
	return missing;
}

void mt_stop_done(struct mt_stop *s)
{
	free(s->thread);
	mt_map_done(&s->by_tid);
	*s = (struct mt_stop){0};
}

/* ---- registers ---- */

static void take_general(struct mt_image_thread *t, const struct user_regs_struct *r)
{
#if defined(__x86_64__)
	t->pc = r->rip;
	t->sp = r->rsp;
	t->fp = r->rbp;
	t->thread_pointer = r->fs_base;
#else
	t->pc = r->pc;
	t->sp = r->sp;
	t->fp = r->regs[29];
	struct iovec io = {&t->thread_pointer, sizeof(t->thread_pointer)};

	ptrace(PTRACE_GETREGSET, t->tid, (uintptr_t)NT_ARM_TLS, &io);
#endif
}

void mt_stop_registers(pid_t tid, struct mt_image_thread *ret_thread)
{
	struct user_regs_struct r;
	struct iovec io = {&r, sizeof(r)};

	_Static_assert(sizeof(r) <= sizeof(ret_thread->registers), "all registers have room");
	memset(ret_thread, 0, offsetof(struct mt_image_thread, vector));
	ret_thread->tid = tid;
	ret_thread->is_missing = true;
	if (ptrace(PTRACE_GETREGSET, tid, (uintptr_t)NT_PRSTATUS, &io) || io.iov_len < sizeof(r))
		return;
	ret_thread->is_missing = false;
	ret_thread->register_count = sizeof(r) / sizeof(uint64_t);
	memcpy(ret_thread->registers, &r, sizeof(r));
	take_general(ret_thread, &r);
	io = (struct iovec){ret_thread->vector, sizeof(ret_thread->vector)};
#if defined(__x86_64__)
	if (!ptrace(PTRACE_GETREGSET, tid, (uintptr_t)NT_X86_XSTATE, &io)) {
		ret_thread->vector_bytes = (uint32_t)io.iov_len;
		return;
	}
	io.iov_len = sizeof(ret_thread->vector);
#endif
	if (!ptrace(PTRACE_GETREGSET, tid, (uintptr_t)NT_PRFPREG, &io))
		ret_thread->vector_bytes = (uint32_t)io.iov_len;
}
