/* SPDX-License-Identifier: MIT */
/*
 * Calls by which a program limits itself, and what they mean for its guest:
 *
 *   mlockall, setrlimit(RLIMIT_AS): our reserved address space would be locked in, or eat the
 * limit. What is not in use is given back first. prctl(PR_SET_NO_NEW_PRIVS): a filter may be
 * coming, set by a call that we do not see. From then on hooks make only calls that malloc itself
 * makes (mmap, madvise, futex). prctl(PR_SET_SECCOMP): the filter is here. Some storage is taken in
 * advance, then hooks make no call at all; what does not fit is counted. prctl(PR_SET_NAME),
 * pthread_setname_np: the thread's name, without asking the kernel for it. syscall(SYS_seccomp) is
 * how libseccomp installs its filters.
 */
#include <stdarg.h>

#include "core/mem.h"
#include "core/sys.h"
#include "elf/loader.h"
#include "runtime/arena.h"
#include "runtime/provider.h"
#include "runtime/record.h"
#include "runtime/storage.h"

#ifndef MT_BUILD_WRAP

enum {
	PR_SET_NAME = 15,
	PR_SET_SECCOMP = 22,
	PR_SET_TSC = 26,
	PR_TSC_SIGSEGV = 2,
	PR_SET_NO_NEW_PRIVS = 38,
	SECCOMP_MODE_STRICT = 1,
	SECCOMP_MODE_FILTER = 2,
	SECCOMP_SET_MODE_STRICT = 0,
	SECCOMP_SET_MODE_FILTER = 1,
	MCL_CURRENT = 1
};

#define NEED(name) \
	do { \
		if (!MT_PROVIDER_HAS(mt_system.name)) \
			return -1; \
	} while (0)

/* Gives back reserved address space, keeping room for about as much again as is in use. */
static void give_back(uint64_t keep_bytes)
{
	struct mt_thread *t;
	if (mt_enter(&t) != MT_ENTER_TRACK)
		return;
	mt_storage_trim(keep_bytes);
	mt_arena_trim(keep_bytes);
	mt_leave(t);
}

MT_PUBLIC int mlockall(int flags);
MT_PUBLIC int mlockall(int flags)
{
	NEED(mlockall);
	if (flags & MCL_CURRENT)
		give_back(64 << 20);
	return mt_system.mlockall(flags);
}

static void address_space_limited(int resource, const struct mt_rlimit64 *limit)
{
	if (resource == MT_RLIMIT_AS && limit && limit->cur != UINT64_MAX)
		give_back(limit->cur / 16);
}

MT_PUBLIC int setrlimit(int resource, const struct mt_rlimit64 *limit);
MT_PUBLIC int setrlimit(int resource, const struct mt_rlimit64 *limit)
{
	NEED(setrlimit);
	address_space_limited(resource, limit);
	return mt_system.setrlimit(resource, limit);
}

MT_PUBLIC int setrlimit64(int resource, const struct mt_rlimit64 *limit);
MT_PUBLIC int setrlimit64(int resource, const struct mt_rlimit64 *limit)
{
	return setrlimit(resource, limit);
}

MT_PUBLIC int prlimit(int pid, int resource, const struct mt_rlimit64 *limit,
		      struct mt_rlimit64 *old);
MT_PUBLIC int prlimit(int pid, int resource, const struct mt_rlimit64 *limit,
		      struct mt_rlimit64 *old)
{
	NEED(prlimit);
	if (pid == 0 || pid == mt_rt.pid)
		address_space_limited(resource, limit);
	return mt_system.prlimit(pid, resource, limit, old);
}

MT_PUBLIC int prlimit64(int pid, int resource, const struct mt_rlimit64 *limit,
			struct mt_rlimit64 *old);
MT_PUBLIC int prlimit64(int pid, int resource, const struct mt_rlimit64 *limit,
			struct mt_rlimit64 *old)
{
	return prlimit(pid, resource, limit, old);
}

static void keep_name(const char *name)
{
	struct mt_thread *t;
	char copy[16] = {0};
	if (!name || mt_enter(&t) != MT_ENTER_TRACK)
		return;
	for (size_t i = 0; i < sizeof(copy) - 1 && name[i]; i++)
		copy[i] = name[i];
	mt_mem_copy(t->row->name, copy, sizeof(copy));
	mt_leave(t);
}

static void restrict_to(enum mt_sandbox what)
{
	struct mt_thread *t;
	mt_provider_resolve(); /* nothing is looked up from then on */
	if (what == MT_SANDBOX_NO_CALLS && mt_rt.sandboxed < what &&
	    mt_enter(&t) == MT_ENTER_TRACK) {
		mt_storage_reserve(); /* the last chance */
		mt_leave(t);
	}
	if (mt_rt.sandboxed < what)
		mt_rt.sandboxed = what;
	mt_unwind.no_calls = mt_rt.sandboxed == MT_SANDBOX_NO_CALLS;
	mt_loader_set_process(mt_rt.pid, MT_LOADER_CAREFUL);
}

/* Before the call: afterwards it may be too late. */
static void prepare_for(int option, unsigned long arg, unsigned long filter)
{
	if (option == PR_SET_NO_NEW_PRIVS)
		restrict_to(MT_SANDBOX_MALLOC_CALLS);
	else if (option == PR_SET_SECCOMP && arg == SECCOMP_MODE_FILTER && filter)
		restrict_to(MT_SANDBOX_NO_CALLS);
	else if (option == PR_SET_SECCOMP && arg == SECCOMP_MODE_STRICT) {
		mt_provider_resolve();
		mt_rt_stop(); /* not even the clock may be read from then on */
		mt_thread_set_self(NULL);
	} else if (option == PR_SET_TSC && arg == PR_TSC_SIGSEGV) {
		mt_rt.no_ticks = 1;
	}
}

MT_PUBLIC int prctl(int option, ...);
MT_PUBLIC int prctl(int option, ...)
{
	va_list args;
	unsigned long a[4];
	va_start(args, option);
	for (int i = 0; i < 4; i++)
		a[i] = va_arg(args, unsigned long);
	va_end(args);
	NEED(prctl);
	prepare_for(option, a[0], a[1]);
	int ret = mt_system.prctl(option, a[0], a[1], a[2], a[3]);
	if (option == PR_SET_NAME && ret == 0)
		keep_name((const char *)a[0]);
	return ret;
}

/*
 * The twins of prctl's. With flags the strict mode is refused, and a filter of NULL as well:
 * libseccomp asks so what the kernel knows.
 */
MT_COLD static void seccomp_comes(long operation, long flags, long filter)
{
	if (operation == SECCOMP_SET_MODE_STRICT && !flags)
		prepare_for(PR_SET_SECCOMP, SECCOMP_MODE_STRICT, 0);
	else if (operation == SECCOMP_SET_MODE_FILTER)
		prepare_for(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, (unsigned long)filter);
}

/*
 * A jump to the original. x86-64: the seventh word lies in the caller's frame, if it is there at
 * all; so it is not named here, and stays where it is.
 */
#if defined(__x86_64__)
#define SYSCALL_WORDS long number, long a, long b, long c, long d, long e
#define SYSCALL_PASS number, a, b, c, d, e
#else
#define SYSCALL_WORDS long number, long a, long b, long c, long d, long e, long f
#define SYSCALL_PASS number, a, b, c, d, e, f
#endif

MT_PUBLIC long syscall(SYSCALL_WORDS);
MT_PUBLIC long syscall(SYSCALL_WORDS)
{
	NEED(syscall);
	if (MT_UNLIKELY(number == __NR_seccomp))
		seccomp_comes(a, b, c);
	return ((long (*)(SYSCALL_WORDS))mt_system.syscall)(SYSCALL_PASS);
}

MT_PUBLIC int pthread_setname_np(uintptr_t thread, const char *name);
MT_PUBLIC int pthread_setname_np(uintptr_t thread, const char *name)
{
	NEED(pthread_setname_np);
	int err = mt_system.pthread_setname_np(thread, name);
	/* glibc, and musl on x86-64: a thread's handle is its thread pointer; others name their own
	   threads only at those threads' first event */
	if (!err && thread == (uintptr_t)__builtin_thread_pointer())
		keep_name(name);
	return err;
}
#endif
