/* SPDX-License-Identifier: MIT */
/*
 * Where messages go.
 *
 * Standard error is held by a duplicate with a high number, close-on-exec: programs close
 * descriptor 2, or put another file there, before they exit, and that is when leaks are told. A
 * name (/proc/self/fd/2, the path behind it) would be no replacement: it is gone when the
 * descriptor is, a pipe or socket has none, and a regular file opened anew has a position of its
 * own, so that the program and we would write over each other. The number is high so that the
 * program's own next descriptor is what it would have been.
 *
 * A duplicate keeps a pipe open. A daemon's parent waits for its end, so a forked child closes its
 * duplicate at once and uses descriptor 2, as long as that is the same file. Whoever closes all
 * descriptors closes ours; its number may be somebody's by the next message: each is compared with
 * the file that it was before anything is written.
 */
#include "runtime/log.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "elf/loader.h"
#include "runtime/rt.h"

enum sink { TO_STDERR, TO_FILE, TO_SYSTEM };
enum part { TAG, PID, TID, LEVEL, TIME, PARTS };
static const char *const part_names[PARTS] = {"tag", "pid", "tid", "level", "time"};

enum {
	PREFIX_BYTES = 160,
	PATH_BYTES = 512,
	FD_BELOW = 1024, /* a table of descriptors for higher numbers would make each fork slower */
	FD_ROOM = 24,
	F_DUPFD_CLOEXEC_CALL = 1030,
	O_APPEND_FLAG = 02000,
	RLIMIT_NOFILE_KIND = 7,
	SIGPIPE_BIT = 1 << 12,
	SIGTTOU_BIT = 1 << 21,
	POLLOUT_BIT = 4,
	FULL_WAITS = 10, /* of 100 ms, for a pipe that does not block and is full */
	UNIX = 1,
	DATAGRAM = 2 | MT_O_CLOEXEC,
	NO_WAIT_NO_SIGNAL = 0x40 | 0x4000,
	USER_ERROR = 1 << 3 | 3, /* facility and severity of the system log */
	USER_INFO = 1 << 3 | 6,
};

static struct {
	uint32_t is_begun;
	enum sink sink;
	int fd;                   /* -1: none; atomic */
	uint64_t identity;        /* of the file that fd is; 0: none */
	uint64_t stderr_identity; /* of the file that descriptor 2 was */
	enum part part[PARTS];
	uint32_t part_count;
	char path[PATH_BYTES]; /* of the file, with %p in it, or of the socket */
	uint64_t dropped;      /* atomic */
	uint32_t waits;        /* for room, since something was written; atomic */
} out = {.fd = -1, .part = {TAG}, .part_count = 1};

uint64_t mt_log_dropped(void)
{
	return __atomic_load_n(&out.dropped, __ATOMIC_RELAXED);
}

/* --- descriptors --------------------------------------------------------------------------- */

/* A duplicate with a high number, or a negative errno value. */
static int duplicate(int fd)
{
	struct mt_rlimit64 limit = {0, 0};
	uint64_t n = FD_BELOW;
	if (!mt_sys_getrlimit(RLIMIT_NOFILE_KIND, &limit))
		n = MT_MIN(n, limit.cur);
	n = n > 2 * FD_ROOM ? n - FD_ROOM : n / 2;
	return (int)mt_sys3(__NR_fcntl, fd, F_DUPFD_CLOEXEC_CALL, n);
}

static int is_still(int fd, uint64_t identity)
{
	return fd >= 0 && identity && mt_sys_file_identity(fd) == identity;
}

static int own_fd(void)
{
	int fd = __atomic_load_n(&out.fd, __ATOMIC_RELAXED);
	return is_still(fd, out.identity) ? fd : -1;
}

static void close_own(void)
{
	int fd = own_fd();
	out.fd = -1;
	if (fd >= 0)
		mt_sys_close(fd);
}

/* The path with the process's number; 0 when it does not fit. */
static int expand_path(char *to, size_t bytes)
{
	struct mt_fmt f;
	mt_fmt_init(&f, to, bytes);
	for (const char *s = out.path; *s; s++)
		if (s[0] == '%' && s[1] == 'p') {
			mt_fmt_u64(&f, (uint64_t)mt_rt.pid);
			s++;
		} else {
			mt_fmt_str(&f, (char[]){*s, 0});
		}
	return f.at < f.end;
}

/*
 * Opens the file, with a high number if there is one. *ret_is_kept: for the messages to come, too;
 * else the caller closes it. A descriptor, or a negative errno value.
 */
static int open_file(int *ret_is_kept)
{
	char path[PATH_BYTES + 32];
	int lost = __atomic_load_n(&out.fd, __ATOMIC_RELAXED);
	if (!expand_path(path, sizeof(path)))
		return -MT_ENAMETOOLONG;
	int fd = (int)mt_sys_open(
		path, MT_O_WRONLY | MT_O_CREAT | O_APPEND_FLAG | MT_O_NOFOLLOW | MT_O_CLOEXEC,
		0600);
	*ret_is_kept = 0;
	if (fd < 0)
		return fd;
	int high = duplicate(fd);
	if (high < 0)
		return fd;
	mt_sys_close(fd);
	out.identity = mt_sys_file_identity(high);
	*ret_is_kept = __atomic_compare_exchange_n(&out.fd, &lost, high, 0, __ATOMIC_RELAXED,
						   __ATOMIC_RELAXED);
	return high;
}

/* --- what stands before a message ---------------------------------------------------------- */

static void put_two(struct mt_fmt *f, const char *before, uint64_t v)
{
	mt_fmt_str(f, before);
	mt_fmt_str(f, v < 10 ? "0" : "");
	mt_fmt_u64(f, v);
}

/* UTC; the C library's zones are its own. */
static void put_time(struct mt_fmt *f)
{
	uint64_t now = mt_sys_clock_ns(MT_CLOCK_REALTIME) / 1000000, s = now / 1000;
	/* days of a year that begins in March, of 400 years */
	uint64_t days = s / 86400 + 719468, era = days / 146097, day = days % 146097;
	uint64_t year = (day - day / 1460 + day / 36524 - day / 146096) / 365;
	uint64_t of_year = day - (365 * year + year / 4 - year / 100);
	uint64_t month = (5 * of_year + 2) / 153;
	mt_fmt_u64(f, era * 400 + year + (month > 9));
	put_two(f, "-", month < 10 ? month + 3 : month - 9);
	put_two(f, "-", of_year - (153 * month + 2) / 5 + 1);
	put_two(f, "T", s / 3600 % 24);
	put_two(f, ":", s / 60 % 60);
	put_two(f, ":", s % 60);
	mt_fmt_str(f, now % 1000 < 10 ? ".00" : now % 1000 < 100 ? ".0" : ".");
	mt_fmt_u64(f, now % 1000);
	mt_fmt_str(f, "Z");
}

static void put_part(struct mt_fmt *f, enum part part, enum mt_log_level level)
{
	switch (part) {
	case TAG:
		mt_fmt_str(f, "malloc_debug");
		break;
	case PID:
		mt_fmt_u64(f, (uint64_t)mt_sys_getpid());
		break;
	case TID:
		mt_fmt_u64(f, (uint64_t)mt_sys_gettid());
		break;
	case LEVEL:
		mt_fmt_str(f, level == MT_LOG_ERROR ? "E" : "I");
		break;
	default:
		put_time(f);
	}
}

static void put_prefix(struct mt_fmt *f, enum sink sink, enum mt_log_level level)
{
	if (sink == TO_SYSTEM) { /* it has a time and a level of its own */
		mt_fmt_str(f, "<");
		mt_fmt_u64(f, level == MT_LOG_ERROR ? USER_ERROR : USER_INFO);
		mt_fmt_str(f, ">malloc_debug[");
		mt_fmt_u64(f, (uint64_t)mt_sys_getpid());
		mt_fmt_str(f, "]: ");
		return;
	}
	for (uint32_t i = 0; i < out.part_count; i++) {
		mt_fmt_str(f, i ? " " : "");
		put_part(f, out.part[i], level);
	}
	mt_fmt_str(f, out.part_count ? ": " : "");
}

/* --- writing ------------------------------------------------------------------------------- */

/* Waits until more fits, with a bound for all messages together: 1, or 0. */
static int wait_for_room(int fd)
{
	struct {
		int fd;
		short wanted, got;
	} poll = {fd, POLLOUT_BIT, 0};
	struct mt_timespec tenth = {0, 100000000};
	if (__atomic_load_n(&out.waits, __ATOMIC_RELAXED) >= FULL_WAITS)
		return 0;
	__atomic_fetch_add(&out.waits, 1, __ATOMIC_RELAXED);
	mt_sys6(__NR_ppoll, (long)&poll, 1, (long)&tenth, 0, 8, 0);
	return 1;
}

/* One system call, unless it is interrupted half-way. 0 or a negative errno value. */
static long write_parts(int fd, struct mt_iovec *part, int count)
{
	while (count) {
		long n = mt_sys3(__NR_writev, fd, part, count);
		if (n == -MT_EINTR || (n == -MT_EAGAIN && wait_for_room(fd)))
			continue;
		if (n < 0)
			return n;
		__atomic_store_n(&out.waits, 0, __ATOMIC_RELAXED);
		for (; count && (size_t)n >= part->len; count--)
			n -= (long)(part++)->len;
		if (count) {
			part->base = (char *)part->base + n;
			part->len -= (size_t)n;
		}
	}
	return 0;
}

/*
 * A pipe whose reader is gone is no reason to end the program, nor a terminal that it may not write
 * to now one to stop it.
 */
static long write_quietly(int fd, struct mt_iovec *part, int count)
{
	uint64_t held = SIGPIPE_BIT | SIGTTOU_BIT, pipe = SIGPIPE_BIT, before, pending = 0;
	struct mt_timespec none = {0, 0};
	mt_sys4(__NR_rt_sigprocmask, 0 /* SIG_BLOCK */, &held, &before, sizeof(held));
	mt_sys2(__NR_rt_sigpending, &pending, sizeof(pending));
	long err = write_parts(fd, part, count);
	if (err == -MT_EPIPE && !(pending & SIGPIPE_BIT))
		mt_sys4(__NR_rt_sigtimedwait, &pipe, 0, &none, sizeof(pipe));
	mt_sys_restore_signals(before);
	return err;
}

/* One datagram; a system log that is not read is no reason to wait. */
static long send_to_system(const struct mt_iovec *part, int count)
{
	struct {
		uint16_t family;
		char path[108];
	} to = {.family = UNIX};
	struct {
		void *name;
		uint32_t name_bytes;
		const struct mt_iovec *part;
		size_t count;
		void *control;
		size_t control_bytes;
		int flags;
	} message = {&to, sizeof(to), part, (size_t)count, NULL, 0, 0};
	mt_mem_copy(to.path, out.path, MT_MIN(mt_str_len(out.path), sizeof(to.path) - 1));
	int fd = (int)mt_sys3(__NR_socket, UNIX, DATAGRAM, 0);
	if (fd < 0)
		return fd;
	long n = mt_sys3(__NR_sendmsg, fd, &message, NO_WAIT_NO_SIGNAL);
	mt_sys_close(fd);
	return n < 0 ? n : 0;
}

static long send_to_file(struct mt_iovec *part, int count)
{
	int is_kept = 1, fd = own_fd();
	if (fd < 0)
		fd = open_file(&is_kept);
	if (fd < 0)
		return fd;
	long err = write_quietly(fd, part, count);
	if (!is_kept)
		mt_sys_close(fd);
	return err;
}

static long send_to_stderr(struct mt_iovec *part, int count)
{
	int fd = own_fd();
	if (fd < 0 || out.sink != TO_STDERR)
		fd = is_still(2, out.stderr_identity) ? 2 : -1;
	return fd < 0 ? -MT_ENOENT : write_quietly(fd, part, count);
}

static long send(enum sink sink, enum mt_log_level level, const char *text)
{
	char prefix[PREFIX_BYTES];
	struct mt_fmt f;
	mt_fmt_init(&f, prefix, sizeof(prefix));
	put_prefix(&f, sink, level);
	struct mt_iovec part[] = {
		{prefix, (size_t)(f.at - prefix)},
		{(void *)text, mt_str_len(text)},
		{(void *)"\n", 1},
	};
	enum { PARTS_OF_LINE = MT_ARRAY_LEN(part) };
	if (sink == TO_SYSTEM)
		return send_to_system(part, PARTS_OF_LINE - 1);
	return sink == TO_FILE ? send_to_file(part, PARTS_OF_LINE)
			       : send_to_stderr(part, PARTS_OF_LINE);
}

void mt_log(enum mt_log_level level, const char *text)
{
	/* in a sandbox a call too many may be the program's end */
	int is_sent =
		!mt_rt.sandboxed && (!send(out.sink, level, text) ||
				     (out.sink != TO_STDERR && !send(TO_STDERR, level, text)));
	if (!is_sent)
		__atomic_fetch_add(&out.dropped, 1, __ATOMIC_RELAXED);
}

/* --- what the environment asks for --------------------------------------------------------- */

static void complain(const char *word, const char *variable)
{
	char text[256];
	struct mt_fmt f;
	mt_fmt_init(&f, text, sizeof(text));
	mt_fmt_str(&f, "cannot use '");
	mt_fmt_str(&f, word);
	mt_fmt_str(&f, "' in ");
	mt_fmt_str(&f, variable);
	mt_log(MT_LOG_ERROR, text);
}

/* The part that the text begins with, as a whole word; PARTS: none. */
static enum part find_part(const char *text, size_t *ret_len)
{
	for (int i = 0; i < PARTS; i++) {
		size_t len = mt_str_len(part_names[i]);
		if (mt_str_starts(text, part_names[i]) && (!text[len] || text[len] == ',')) {
			*ret_len = len + (text[len] != 0);
			return (enum part)i;
		}
	}
	return PARTS;
}

static int read_prefix(const char *text)
{
	enum part part[PARTS];
	uint32_t count = 0;
	size_t len;
	if (!mt_str_equal(text, "none"))
		for (; *text; text += len, count++) {
			enum part p = find_part(text, &len);
			if (p == PARTS || count == PARTS)
				return -MT_EINVAL;
			part[count] = p;
		}
	mt_mem_copy(out.part, part, count * sizeof(part[0]));
	out.part_count = count;
	return 0;
}

/* Absolute, since the program may go elsewhere. */
static int set_path(const char *path)
{
	char cwd[PATH_BYTES];
	struct mt_fmt f;
	mt_fmt_init(&f, out.path, sizeof(out.path));
	if (*path != '/') {
		if (mt_sys2(__NR_getcwd, cwd, sizeof(cwd)) <= 0)
			return -MT_ENOENT;
		mt_fmt_str(&f, cwd);
		mt_fmt_str(&f, "/");
	}
	mt_fmt_str(&f, path);
	return f.at < f.end && *path ? 0 : -MT_EINVAL;
}

static void use_stderr(void)
{
	out.sink = TO_STDERR;
	out.identity = out.stderr_identity;
	out.fd = out.identity ? duplicate(2) : -1;
}

static int use_file(const char *path)
{
	int is_kept, fd;
	if (set_path(path))
		return -MT_EINVAL;
	out.sink = TO_FILE;
	fd = open_file(&is_kept);
	if (fd >= 0 && !is_kept)
		mt_sys_close(fd);
	return fd < 0 ? fd : 0;
}

static int use_system(const char *socket)
{
	out.sink = TO_SYSTEM;
	return set_path(socket);
}

static int open_sink(const char *text)
{
	if (mt_str_starts(text, "file:"))
		return use_file(text + 5);
	if (mt_str_equal(text, "syslog"))
		return use_system("/dev/log");
	if (mt_str_starts(text, "syslog:"))
		return use_system(text + 7);
	use_stderr();
	return mt_str_equal(text, "stderr") ? 0 : -MT_EINVAL;
}

void mt_log_begin(char **envp)
{
	const char *sink = mt_loader_env(envp, "MEMTRACK_LOG");
	const char *prefix = mt_loader_env(envp, "MEMTRACK_LOG_PREFIX");
	if (out.is_begun)
		return;
	out.is_begun = 1;
	out.stderr_identity = mt_sys_file_identity(2);
	if (!sink || !*sink)
		sink = "stderr";
	int err = open_sink(sink);
	if (err && out.sink != TO_STDERR)
		use_stderr();
	if (err)
		complain(sink, "MEMTRACK_LOG");
	if (prefix && *prefix && read_prefix(prefix))
		complain(prefix, "MEMTRACK_LOG_PREFIX");
}

void mt_log_forked(void)
{
	int has_pid = 0;
	for (const char *s = out.path; *s; s++)
		has_pid |= s[0] == '%' && s[1] == 'p';
	if (out.is_begun && !mt_rt.sandboxed && (out.sink != TO_FILE || has_pid))
		close_own();
}

void mt_log_end(void)
{
	close_own();
	out.identity = out.stderr_identity = 0;
}
