/* SPDX-License-Identifier: MIT */
/*
 * A thread of the stopped process is made to execute system calls, at a `syscall` instruction that
 * it has anyway:
 *
 *	process: clone(CLONE_VM)    -> helper      (no page table is copied)
 *	helper:  clone()            -> copy        (copy on write)
 *	copy:    close_range()                     (it shares no descriptor any more)
 *	helper:  exit()                            (the copy is init's child now)
 *	process: wait4(helper)                     (no child is left)
 *
 * Helper and copy never execute anything else. The thread's registers, mask of signals and
 * interrupted system call are put back. No memory of the process is written but one word below the
 * stack, which is put back, too.
 */

#include "target/image_copy.h"

#include "base/cleanup.h"
#include "base/units.h"
#include "core/cc.h"
#include "core/sys.h"
#include "target/image_keeper.h"
#include "target/image_process.h"
#include "target/machine.h"
#include "target/memory.h"
#include "target/status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

void mt_copy_end(pid_t copy)
{
	int status;

	if (copy <= 0)
		return;
	kill(copy, SIGKILL);
	while (waitpid(copy, &status, __WALL) == copy && WIFSTOPPED(status))
		continue;
}

int mt_copy_refuse(pid_t pid, struct mt_err *why)
{
	struct mt_status st;
	char text[MT_UNITS_TEXT_MAX];
	uint64_t room;

	if (mt_status_read(pid, &st) || st.bytes[MT_STATUS_RSS_ANON] == MT_MEMORY_UNKNOWN)
		return 0;
	room = mt_machine_room();
	if (st.bytes[MT_STATUS_RSS_ANON] > room)
		return mt_err_set(why, -ENOMEM,
				  "the machine has %s left, which a copy might use up",
				  mt_units_size(room, text));
	room = mt_cgroup_room(pid);
	if (st.bytes[MT_STATUS_RSS_ANON] > room)
		return mt_err_set(why, -ENOMEM,
				  "its control group has %s left, which a copy might use up",
				  mt_units_size(room, text));
	return 0;
}

#if defined(__x86_64__)

#include <elf.h>
#include <linux/close_range.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

enum { EVENT_STOP = 128, TRIES_MAX = 16, STOPS_MAX = 64, VDSO_BYTES = 8192, SCRATCH = 1024 };
#define CALL_NS \
	((uint64_t)60000000000) /* copying the tables of a very large process takes long \
				 */
#define RESTART_NO_INTR (-513)
#define OPTIONS_CALLER \
	(PTRACE_O_TRACESYSGOOD | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK | PTRACE_O_TRACEVFORK)
#define OPTIONS_OURS (OPTIONS_CALLER | PTRACE_O_EXITKILL)

/* A tracee that executes system calls for us. */
struct caller {
	pid_t tid;
	struct user_regs_struct saved;
	uint64_t mask;       /* of signals */
	uint64_t syscall_at; /* an instruction */
};

static int get_registers(pid_t tid, struct user_regs_struct *r)
{
	struct iovec io = {r, sizeof(*r)};

	if (ptrace(PTRACE_GETREGSET, tid, (uintptr_t)NT_PRSTATUS, &io))
		return -errno;
	return io.iov_len == sizeof(*r) ? 0 : -ENOTSUP;
}

static int set_registers(pid_t tid, const struct user_regs_struct *r)
{
	struct iovec io = {(void *)(uintptr_t)r, sizeof(*r)};

	return ptrace(PTRACE_SETREGSET, tid, (uintptr_t)NT_PRSTATUS, &io) ? -errno : 0;
}

/* ---- calls ---- */

/*
 * Runs on to where the call begins or ends. 0 with *ret_exited when the tracee ended; a child that
 * it made is in *ret_child.
 */
static int run_to_call(pid_t tid, pid_t *ret_child, bool *ret_exited)
{
	for (unsigned i = 0; i < STOPS_MAX; i++) {
		unsigned long message = 0;
		int status, code;

		if (ptrace(PTRACE_SYSCALL, tid, 0, 0))
			return -errno;
		code = mt_stop_wait(tid, mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + CALL_NS, &status);
		if (code)
			return code;
		*ret_exited = !WIFSTOPPED(status);
		if (*ret_exited || WSTOPSIG(status) == (SIGTRAP | 0x80))
			return 0;
		if (status >> 16 == PTRACE_EVENT_CLONE || status >> 16 == PTRACE_EVENT_FORK ||
		    status >> 16 == PTRACE_EVENT_VFORK) {
			if (ptrace(PTRACE_GETEVENTMSG, tid, 0, &message))
				return -errno;
			*ret_child = (pid_t)message;
		} else if (status >> 16 != EVENT_STOP) {
			return -EINTR; /* a signal, though all are blocked */
		}
	}
	return -EINTR;
}

/* One system call: its value in *ret_value, not set when it ended the tracee. */
static int call(const struct caller *c, int64_t number, const uint64_t a[5], int64_t *ret_value,
		pid_t *ret_child)
{
	struct user_regs_struct r;

	for (unsigned i = 0; i < TRIES_MAX; i++) {
		bool exited;
		int code;

		r = c->saved;
		r.rip = c->syscall_at;
		r.rax = (uint64_t)number;
		r.orig_rax = UINT64_MAX; /* nothing that could be restarted */
		r.rdi = a[0];
		r.rsi = a[1];
		r.rdx = a[2];
		r.r10 = a[3];
		r.r8 = a[4];
		code = set_registers(c->tid, &r);
		if (!code)
			code = run_to_call(c->tid, ret_child, &exited);
		if (code || exited)
			return code ? code : -ESRCH;
		code = get_registers(c->tid, &r);
		if (code || (int64_t)r.orig_rax != number)
			return code ? code : -EPROTO;
		code = run_to_call(c->tid, ret_child, &exited);
		if (!code && exited)
			return number == SYS_exit ? 0 : -ESRCH;
		if (!code)
			code = get_registers(c->tid, &r);
		if (code)
			return code;
		if ((int64_t)r.rax != RESTART_NO_INTR) {
			*ret_value = (int64_t)r.rax;
			return 0;
		}
	}
	return -EAGAIN;
}

/* ---- who calls ---- */

static bool is_syscall_at(pid_t tid, uint64_t address)
{
	uint64_t word;

	errno = 0;
	word = (uint64_t)ptrace(PTRACE_PEEKTEXT, tid, address, 0);
	return !errno && (word & 0xffff) == 0x050f;
}

/* A thread that waits in a system call is at the best of places. */
static bool is_in_call(const struct mt_stop_thread *t, struct caller *c)
{
	if (t->state != MT_STOP_STOPPED || get_registers(t->tid, &c->saved) ||
	    (int64_t)c->saved.orig_rax < 0 || !is_syscall_at(t->tid, c->saved.rip - 2))
		return false;
	c->tid = t->tid;
	c->syscall_at = c->saved.rip - 2;
	return true;
}

/* What the kernel tells of a restartable sequence of user code. */
struct rseq_configuration {
	uint64_t address;
	uint32_t bytes, signature, flags, padding;
};

/*
 * Whether a thread may be in code that has to begin anew when it is interrupted: the kernel would
 * not see that any more after our calls.
 */
static bool is_in_sequence(pid_t tid)
{
	struct rseq_configuration rseq;
	uint64_t word;

	if (ptrace((enum __ptrace_request)0x420f /* PTRACE_GET_RSEQ_CONFIGURATION */, tid,
		   sizeof(rseq), &rseq) < 0)
		return errno != EIO && errno != EINVAL; /* an older kernel: glibc has none then */
	if (!rseq.address)
		return false;
	errno = 0;
	word = (uint64_t)ptrace(PTRACE_PEEKDATA, tid, rseq.address + 8, 0);
	return errno || word;
}

/* A syscall instruction of the vdso, or 0. */
static uint64_t find_in_vdso(pid_t pid)
{
	char path[64];
	Elf64_auxv_t auxv;
	uint64_t vdso = 0;
	uint8_t bytes[VDSO_BYTES];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/auxv", (int)pid);
	f = fopen(path, "re");
	while (f && fread(&auxv, sizeof(auxv), 1, f) == 1)
		if (auxv.a_type == AT_SYSINFO_EHDR)
			vdso = auxv.a_un.a_val;
	if (f)
		fclose(f);
	for (size_t size = sizeof(bytes); vdso && size >= 4096; size -= 4096) {
		struct iovec here = {bytes, size}, there = {(void *)(uintptr_t)vdso, size};

		if (process_vm_readv(pid, &here, 1, &there, 1, 0) != (ssize_t)size)
			continue;
		for (size_t i = 0; i + 1 < size; i++)
			if (bytes[i] == 0x0f && bytes[i + 1] == 0x05)
				return vdso + i;
	}
	return 0;
}

static int choose_caller(const struct mt_stop *s, struct caller *c, struct mt_err *why)
{
	for (size_t i = 0; i < s->count; i++)
		if (is_in_call(&s->thread[i], c))
			return 0;
	c->syscall_at = find_in_vdso(s->pid);
	for (size_t i = 0; i < s->count && c->syscall_at; i++) {
		c->tid = s->thread[i].tid;
		if (s->thread[i].state == MT_STOP_STOPPED && !is_in_sequence(c->tid) &&
		    !get_registers(c->tid, &c->saved))
			return 0;
	}
	return mt_err_set(why, -EAGAIN, "no thread of it can make system calls for us");
}

/* ---- who must not ---- */

static bool is_same_namespace(pid_t pid)
{
	struct stat a, b;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/ns/pid", (int)pid);
	return !stat(path, &a) && !stat("/proc/self/ns/pid", &b) && a.st_ino == b.st_ino &&
	       a.st_dev == b.st_dev;
}

struct dispatch_configuration {
	uint64_t mode, selector, offset, bytes;
};

/* Whether a thread has its system calls handed to itself (wine, emulators). */
static bool is_dispatched(pid_t tid)
{
	struct dispatch_configuration d = {0};

	return !ptrace((enum __ptrace_request)0x4211 /* PTRACE_GET_SYSCALL_USER_DISPATCH_CONFIG */,
		       tid, sizeof(d), &d) &&
	       d.mode;
}

static int check_process(pid_t pid, struct mt_err *why)
{
	struct mt_image_status status;
	int code = mt_image_read_status(pid, 0, &status);

	if (code)
		return mt_err_set(why, code, "it is gone");
	if (status.inner_pid == 1)
		return mt_err_set(why, -ENOTSUP,
				  "it is the init of its pid namespace, and would get the copy for "
				  "a child");
	if (!is_same_namespace(pid))
		return mt_err_set(
			why, -ENOTSUP,
			"it is in another pid namespace, whose init may not take children "
			"that are not its own");
	return 0;
}

static int check_thread(pid_t pid, pid_t tid, struct mt_err *why)
{
	struct mt_image_status status;
	int code = mt_image_read_status(pid, tid, &status);

	if (code)
		return mt_err_set(why, code, "it is gone");
	if (status.seccomp)
		return mt_err_set(why, -ENOTSUP,
				  "a seccomp filter watches its system calls, and may punish ours");
	if (is_dispatched(tid))
		return mt_err_set(why, -ENOTSUP, "it handles its system calls itself");
	return 0;
}

/* Children whose parents ended come to a subreaper, and the copy would do so, too. */
static int check_subreaper(const struct caller *c, struct mt_err *why)
{
	uint64_t at = MT_ALIGN_DOWN(c->saved.rsp - SCRATCH, (uint64_t)16), word;
	const uint64_t a[5] = {PR_GET_CHILD_SUBREAPER, at};
	int64_t value = -1, is_subreaper;
	pid_t child;
	int code;

	errno = 0;
	word = (uint64_t)ptrace(PTRACE_PEEKDATA, c->tid, at, 0);
	if (errno)
		return mt_err_set(why, -ENOTSUP, "there is no room on its stack");
	code = call(c, SYS_prctl, a, &value, &child);
	errno = 0;
	is_subreaper = ptrace(PTRACE_PEEKDATA, c->tid, at, 0) & 0xffffffff;
	if (errno || ptrace(PTRACE_POKEDATA, c->tid, at, word) || code || value)
		return mt_err_set(why, -ENOTSUP, "it cannot be asked whether it is a subreaper");
	if (is_subreaper)
		return mt_err_set(why, -ENOTSUP,
				  "it is a subreaper, and would get the copy for a child");
	return 0;
}

/* ---- the copy ---- */

static int why_not(struct mt_err *why, int code, const char *what)
{
	return mt_err_set_errno(why, code, "%s", what);
}

/* A new tracee of ours, stopped at its begin, where it calls for us. */
static int take_child(const struct caller *parent, pid_t child, struct caller *c)
{
	int status,
		code = mt_stop_wait(child, mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + CALL_NS, &status);

	if (code)
		return code;
	if (!WIFSTOPPED(status))
		return -ESRCH;
	if (ptrace(PTRACE_SETOPTIONS, child, 0, (uintptr_t)OPTIONS_OURS))
		return -errno;
	c->tid = child;
	c->syscall_at = parent->syscall_at;
	return get_registers(child, &c->saved);
}

static int clone_by(const struct caller *parent, uint64_t flags, struct caller *c, pid_t *ret_child)
{
	const uint64_t a[5] = {flags};
	int64_t value = -1;
	int code = call(parent, SYS_clone, a, &value, ret_child);

	if (!code && value < 0)
		code = (int)value;
	if (!code && !*ret_child)
		code = -EPROTO;
	return code ? code : take_child(parent, *ret_child, c);
}

/* The copy gives up the descriptors that it shares, without closing one. */
static int give_up_files(const struct caller *copy)
{
	const uint64_t a[5] = {0, UINT32_MAX, CLOSE_RANGE_UNSHARE};
	int64_t value = -1;
	pid_t child;
	int code = call(copy, SYS_close_range, a, &value, &child);

	return code ? code : value < 0 ? (int)value : 0;
}

/* The helper ends, and the process takes its status. `is_well`: it can make a call. */
static int end_helper(const struct caller *c, pid_t pid, const struct caller *helper)
{
	const uint64_t none[5] = {0};
	const uint64_t a[5] = {(uint64_t)pid, 0, __WALL | WNOHANG};
	int64_t value = 0;
	pid_t child = 0;

	if (helper->tid != pid || call(helper, SYS_exit, none, &value, &child))
		mt_copy_end(pid);
	for (unsigned i = 0; i < TRIES_MAX; i++) {
		int code = call(c, SYS_wait4, a, &value, &child);

		if (code || value == pid)
			return code;
	}
	return value < 0 ? (int)value : -ECHILD;
}

/* All as it was, stopped where the kernel goes on with what it did. */
static int put_back(const struct caller *c)
{
	int status = 0, code = 0;

	/* the stop at the end of a call is no place where an interrupted call is restarted */
	for (unsigned i = 0; i < STOPS_MAX && !code && status >> 16 != EVENT_STOP; i++) {
		if (ptrace(PTRACE_INTERRUPT, c->tid, 0, 0) || ptrace(PTRACE_CONT, c->tid, 0, 0))
			return -errno;
		code = mt_stop_wait(c->tid, mt_sys_clock_ns(MT_CLOCK_MONOTONIC) + CALL_NS, &status);
		if (!code && !WIFSTOPPED(status))
			code = -ESRCH;
	}
	if (!code)
		code = set_registers(c->tid, &c->saved);
	if (ptrace(PTRACE_SETSIGMASK, c->tid, sizeof(c->mask), &c->mask) ||
	    ptrace(PTRACE_SETOPTIONS, c->tid, 0, (uintptr_t)PTRACE_O_TRACESYSGOOD))
		return code ? code : -errno;
	return code;
}

/*
 * Should memory run out, the copy is killed and not the process. Whoever may trace it may ask for
 * that; if not, both are as likely.
 */
static void volunteer(pid_t copy)
{
	static const char most[] = "1000";
	char path[64];
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", (int)copy);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	(void)!write(fd, most, sizeof(most) - 1);
	close(fd);
}

/* Between saving and putting back. */
static int copy_by(const struct caller *c, pid_t *ret_copy, struct mt_err *why)
{
	struct caller helper = {0}, copy = {0};
	pid_t helper_pid = 0, copy_pid = 0;
	int code = check_subreaper(c, why), ended;

	if (code)
		return code;
	code = clone_by(c, CLONE_VM | CLONE_FILES, &helper, &helper_pid);
	if (code)
		why_not(why, code, "it cannot start a process");
	if (!code) {
		code = clone_by(&helper, CLONE_FILES, &copy, &copy_pid);
		if (code)
			why_not(why, code, "it cannot be copied");
	}
	if (!code) {
		code = give_up_files(&copy);
		if (code)
			why_not(why, code, "its descriptors cannot be left out of the copy");
	}
	ended = helper_pid ? end_helper(c, helper_pid, &helper) : 0;
	if (!code && ended)
		code = why_not(why, ended, "the copy cannot be taken off it");
	if (code) {
		mt_copy_end(copy_pid);
	} else {
		volunteer(copy_pid);
		*ret_copy = copy_pid;
	}
	return code;
}

int mt_copy_make(const struct mt_stop *s, pid_t *ret_copy, struct mt_err *why)
{
	struct caller c = {0};
	const uint64_t all = UINT64_MAX;
	pid_t copy = 0;
	int code = check_process(s->pid, why), back;

	if (!code)
		code = choose_caller(s, &c, why);
	if (!code)
		code = check_thread(s->pid, c.tid, why);
	if (code)
		return code;
	if (ptrace(PTRACE_GETSIGMASK, c.tid, sizeof(c.mask), &c.mask) ||
	    ptrace(PTRACE_SETSIGMASK, c.tid, sizeof(all), &all) ||
	    ptrace(PTRACE_SETOPTIONS, c.tid, 0, (uintptr_t)OPTIONS_CALLER)) {
		code = why_not(why, errno, "its signals cannot be held off");
	} else {
		code = copy_by(&c, &copy, why);
	}
	back = put_back(&c);
	if (back && !code)
		code = why_not(why, back, "it ended meanwhile");
	if (code)
		mt_copy_end(copy);
	else
		*ret_copy = copy;
	return code;
}

#else

int mt_copy_make(const struct mt_stop *s, pid_t *ret_copy, struct mt_err *why)
{
	return mt_err_set(why, -ENOTSUP, "copies are made on x86-64 only");
}

#endif
