/* SPDX-License-Identifier: MIT */
#ifndef MT_CORE_SYS_H
#define MT_CORE_SYS_H

/*
 * The system, without libc: every call is the bare system call, returns its result or a negative
 * errno value, and never touches errno. Async-signal-safe and callable before libc is relocated.
 */

#include <asm/unistd.h>
#include <linux/stat.h>
#include <stdint.h>

#include "core/cc.h"

#if defined(__x86_64__)
MT_INLINE long mt_sys6(long n, long a, long b, long c, long d, long e, long f)
{
	register long r10 __asm__("r10") = d;
	register long r8 __asm__("r8") = e;
	register long r9 __asm__("r9") = f;
	long ret;
	__asm__ volatile("syscall"
			 : "=a"(ret)
			 : "a"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
			 : "rcx", "r11", "memory");
	return ret;
}
#elif defined(__aarch64__)
MT_INLINE long mt_sys6(long n, long a, long b, long c, long d, long e, long f)
{
	register long x8 __asm__("x8") = n;
	register long x0 __asm__("x0") = a;
	register long x1 __asm__("x1") = b;
	register long x2 __asm__("x2") = c;
	register long x3 __asm__("x3") = d;
	register long x4 __asm__("x4") = e;
	register long x5 __asm__("x5") = f;
	__asm__ volatile("svc #0"
			 : "+r"(x0)
			 : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
			 : "memory");
	return x0;
}
#else
#error "memtrack runs on x86-64 and aarch64"
#endif

#define mt_sys0(n) mt_sys6((n), 0, 0, 0, 0, 0, 0)
#define mt_sys1(n, a) mt_sys6((n), (long)(a), 0, 0, 0, 0, 0)
#define mt_sys2(n, a, b) mt_sys6((n), (long)(a), (long)(b), 0, 0, 0, 0)
#define mt_sys3(n, a, b, c) mt_sys6((n), (long)(a), (long)(b), (long)(c), 0, 0, 0)
#define mt_sys4(n, a, b, c, d) mt_sys6((n), (long)(a), (long)(b), (long)(c), (long)(d), 0, 0)

/* Constants that the core needs; the values are the kernel's ABI on both architectures. */
enum {
	MT_PROT_NONE = 0,
	MT_PROT_READ = 1,
	MT_PROT_WRITE = 2,
	MT_PROT_EXEC = 4,
	MT_MAP_SHARED = 0x01,
	MT_MAP_PRIVATE = 0x02,
	MT_MAP_FIXED = 0x10,
	MT_MAP_ANONYMOUS = 0x20,
	MT_MAP_NORESERVE = 0x4000,
	MT_MADV_DONTNEED = 4,
	MT_MADV_NOHUGEPAGE = 15,
	MT_MADV_DONTDUMP = 16,
	MT_MADV_WIPEONFORK = 18,
	MT_MADV_POPULATE_WRITE = 23,
	MT_AT_FDCWD = -100,
	MT_O_RDONLY = 0,
	MT_O_WRONLY = 1,
	MT_O_RDWR = 2,
	MT_O_CREAT = 0100,
	MT_O_EXCL = 0200,
	MT_O_TRUNC = 01000,
	MT_O_CLOEXEC = 02000000,
#if defined(__x86_64__)
	MT_O_NOFOLLOW = 0400000,
#else
	MT_O_NOFOLLOW = 0100000,
#endif
	MT_PR_GET_NAME = 16,
	MT_CLOCK_REALTIME = 0,
	MT_CLOCK_MONOTONIC = 1,
	MT_CLOCK_THREAD_CPU = 3,
	MT_RLIMIT_FSIZE = 1,
	MT_RLIMIT_AS = 9,
	MT_EPERM = 1,
	MT_EIO = 5,
	MT_ETIMEDOUT = 110,
	MT_ENOENT = 2,
	MT_EINTR = 4,
	MT_EAGAIN = 11,
	MT_ENOMEM = 12,
	MT_EFAULT = 14,
	MT_EBUSY = 16,
	MT_EEXIST = 17,
	MT_EINVAL = 22,
	MT_EFBIG = 27,
	MT_ENOSPC = 28,
	MT_ENOTSUP = 95,
	MT_EPIPE = 32,
	MT_ESRCH = 3,
	MT_ENAMETOOLONG = 36,
	MT_ENOSYS = 38,
	MT_EDQUOT = 122,
};

struct mt_timespec {
	int64_t sec;
	int64_t nsec;
};

struct mt_rlimit64 {
	uint64_t cur, max;
};

struct mt_iovec {
	void *base;
	size_t len;
};

MT_INLINE int mt_sys_is_error(long ret)
{
	return (unsigned long)ret > -4096UL;
}

/* The address, or a negative errno value: test with mt_sys_is_error(). */
MT_INLINE long mt_sys_mmap(void *addr, size_t len, int prot, int flags, int fd, int64_t off)
{
	return mt_sys6(__NR_mmap, (long)addr, (long)len, prot, flags, fd, (long)off);
}

MT_INLINE long mt_sys_munmap(void *addr, size_t len)
{
	return mt_sys2(__NR_munmap, addr, len);
}

MT_INLINE long mt_sys_madvise(void *addr, size_t len, int advice)
{
	return mt_sys3(__NR_madvise, addr, len, advice);
}

/* flags without O_LARGEFILE: both architectures are 64-bit. */
MT_INLINE long mt_sys_open(const char *path, int flags, int mode)
{
	return mt_sys4(__NR_openat, MT_AT_FDCWD, path, flags, mode);
}

MT_INLINE long mt_sys_close(int fd)
{
	return mt_sys1(__NR_close, fd);
}

MT_INLINE long mt_sys_read(int fd, void *buf, size_t len)
{
	return mt_sys3(__NR_read, fd, buf, len);
}

MT_INLINE long mt_sys_pread(int fd, void *buf, size_t len, int64_t off)
{
	return mt_sys4(__NR_pread64, fd, buf, len, off);
}

MT_INLINE long mt_sys_pwrite(int fd, const void *buf, size_t len, int64_t off)
{
	return mt_sys4(__NR_pwrite64, fd, buf, len, off);
}

MT_INLINE long mt_sys_write(int fd, const void *buf, size_t len)
{
	return mt_sys3(__NR_write, fd, buf, len);
}

MT_INLINE long mt_sys_ftruncate(int fd, int64_t len)
{
	return mt_sys2(__NR_ftruncate, fd, len);
}

MT_INLINE long mt_sys_fallocate(int fd, int mode, int64_t off, int64_t len)
{
	return mt_sys4(__NR_fallocate, fd, mode, off, len);
}

MT_INLINE long mt_sys_unlink(const char *path)
{
	return mt_sys3(__NR_unlinkat, MT_AT_FDCWD, path, 0);
}

MT_INLINE long mt_sys_readlink(const char *path, char *buf, size_t len)
{
	return mt_sys4(__NR_readlinkat, MT_AT_FDCWD, path, buf, len);
}

MT_INLINE long mt_sys_access(const char *path, int mode)
{
	return mt_sys3(__NR_faccessat, MT_AT_FDCWD, path, mode);
}

MT_INLINE int mt_sys_getpid(void)
{
	return (int)mt_sys0(__NR_getpid);
}

MT_INLINE int mt_sys_getppid(void)
{
	return (int)mt_sys0(__NR_getppid);
}

MT_INLINE int mt_sys_gettid(void)
{
	return (int)mt_sys0(__NR_gettid);
}

MT_INLINE long mt_sys_tgkill(int tgid, int tid, int sig)
{
	return mt_sys3(__NR_tgkill, tgid, tid, sig);
}

/*
 * Keeps signals away from the calling thread, but for those that it raises itself (ILL, TRAP, BUS,
 * FPE, SEGV, SYS: blocked, they would kill). Returns the set to be given to the next.
 */
MT_INLINE uint64_t mt_sys_block_signals(void)
{
	uint64_t all = ~(1ull << 3 | 1ull << 4 | 1ull << 6 | 1ull << 7 | 1ull << 10 | 1ull << 30);
	uint64_t old = 0;
	mt_sys4(__NR_rt_sigprocmask, 2 /* SIG_SETMASK */, &all, &old, sizeof(all));
	return old;
}

MT_INLINE void mt_sys_restore_signals(uint64_t old)
{
	mt_sys4(__NR_rt_sigprocmask, 2, &old, 0, sizeof(old));
}

/* 1 when the calling thread runs on its alternate signal stack. */
MT_INLINE int mt_sys_on_signal_stack(void)
{
	struct {
		void *sp;
		int flags;
		size_t bytes;
	} stack = {0, 0, 0};
	return !mt_sys2(__NR_sigaltstack, 0, &stack) && stack.flags & 1;
}

MT_INLINE long mt_sys_prctl(int option, unsigned long a, unsigned long b)
{
	return mt_sys6(__NR_prctl, option, (long)a, (long)b, 0, 0, 0);
}

MT_INLINE long mt_sys_clock_gettime(int clock, struct mt_timespec *ret_ts)
{
	return mt_sys2(__NR_clock_gettime, clock, ret_ts);
}

MT_INLINE long mt_sys_getrlimit(int resource, struct mt_rlimit64 *ret_limit)
{
	return mt_sys4(__NR_prlimit64, 0, resource, 0, ret_limit);
}

MT_INLINE long mt_sys_getrandom(void *buf, size_t len)
{
	return mt_sys3(__NR_getrandom, buf, len, 0);
}

MT_INLINE long mt_sys_sched_yield(void)
{
	return mt_sys0(__NR_sched_yield);
}

/* What file a descriptor refers to, as one number; 0: none, or the kernel does not tell. */
MT_INLINE uint64_t mt_sys_file_identity(int fd)
{
	enum { AT_EMPTY_PATH_FLAG = 0x1000 };
	struct statx s;
	if (mt_sys6(__NR_statx, fd, (long)"", AT_EMPTY_PATH_FLAG, STATX_INO, (long)&s, 0) < 0)
		return 0;
	return s.stx_ino ^ (uint64_t)s.stx_dev_major << 52 ^ (uint64_t)s.stx_dev_minor << 40;
}

/* Reads our own memory without faulting: bytes read, or a negative errno value. */
MT_INLINE long mt_sys_read_self(int pid, const void *from, void *to, size_t len)
{
	struct mt_iovec local = {to, len}, remote = {(void *)from, len};
	return mt_sys6(__NR_process_vm_readv, pid, (long)&local, 1, (long)&remote, 1, 0);
}

MT_INLINE uint64_t mt_sys_clock_ns(int clock)
{
	struct mt_timespec ts = {0, 0};
	mt_sys_clock_gettime(clock, &ts);
	return (uint64_t)ts.sec * 1000000000u + (uint64_t)ts.nsec;
}

#endif
