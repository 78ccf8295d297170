/* SPDX-License-Identifier: MIT */
/*
 * A process that asks changes the times of its state file, which inotify tells. A request is served
 * when look_asked is not look_done; events that come twice, or too late, find nothing to do.
 */
#include "record/looker.h"

#include "base/alloc.h"
#include "base/cleanup.h"
#include "base/path.h"
#include "core/sys.h"
#include "formats/mtk_read.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SEARCH_MS = 300000 }; /* the longest that anybody waits for a search */

struct mt_looker {
	pid_t pid;
	int life; /* the process ends when this is closed */
	int end;  /* ... and closes this */
};

/* ---- results ---- */

static int wake(uint32_t *word)
{
	return (int)syscall(SYS_futex, word, FUTEX_WAKE, INT32_MAX, NULL, NULL, 0);
}

void mt_looker_let_go(struct mt_state_header *h)
{
	uint32_t asked = __atomic_load_n(&h->look_asked, __ATOMIC_ACQUIRE);

	if (__atomic_exchange_n(&h->look_done, asked, __ATOMIC_RELEASE) != asked)
		wake(&h->look_done);
}

void mt_looker_refuse(struct mt_state_header *h, enum mt_state_look why)
{
	__atomic_store_n(&h->look_result, why, __ATOMIC_RELEASE);
	mt_looker_let_go(h);
}

static struct mt_state_region *unreached_of(struct mt_state_header *h)
{
	for (int i = 0; i < MT_STATE_REGIONS_MAX && h->region[i].kind; i++)
		if (h->region[i].kind == MT_REGION_UNREACHED)
			return &h->region[i];
	return NULL;
}

/* Element 0 is not used. */
static int store(const char *path, struct mt_state_region *r, const struct mt_state_unreached *lost,
		 uint64_t count)
{
	mt_auto(close) int fd = open(path, O_WRONLY | O_CLOEXEC | O_NOFOLLOW);
	uint64_t bytes = count * sizeof(*lost), done = 0;
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (r->elem_bytes != sizeof(*lost) || count >= r->capacity ||
	    r->offset > (uint64_t)st.st_size ||
	    (count + 1) * sizeof(*lost) > (uint64_t)st.st_size - r->offset)
		return -E2BIG;
	while (done < bytes) {
		ssize_t n = pwrite(fd, (const char *)lost + done, bytes - done,
				   (off_t)(r->offset + sizeof(*lost) + done));

		if (n < 0 && errno != EINTR)
			return -errno;
		done += n > 0 ? (uint64_t)n : 0;
	}
	r->committed_bytes = bytes + sizeof(*lost);
	__atomic_store_n(&r->used, count + 1, __ATOMIC_RELEASE);
	return 0;
}

int mt_looker_give(const char *path, struct mt_state_header *h,
		   const struct mt_state_unreached *lost, uint64_t count,
		   const struct mt_looker_found *found)
{
	struct mt_state_region *r = unreached_of(h);
	int code = r ? store(path, r, lost, count) : -EINVAL;

	if (code)
		return code;
	h->look_flags = found->flags;
	h->look_unit = found->unit;
	h->look_stop_ns = found->stop_ns;
	h->look_count = found->count;
	h->look_bytes = found->bytes;
	mt_looker_refuse(h, MT_LOOK_MADE);
	return 0;
}

/* ---- requests ---- */

static struct mt_state_header *map_header(const char *path)
{
	mt_auto(close) int fd = open(path, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat st;
	void *h;

	if (fd < 0 || fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size < MT_STATE_HEADER_BYTES)
		return NULL;
	h = mmap(NULL, MT_STATE_HEADER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	return h == MAP_FAILED ? NULL : h;
}

int mt_looker_answer(const char *path, mt_looker_serve *serve)
{
	struct mt_state_header copy, *h = map_header(path);
	int code = -ENODATA;

	if (!h)
		return code;
	if (!mt_mtk_read_header(path, &copy, NULL) && copy.look_asked != copy.look_done &&
	    mt_mtk_process_alive(&copy)) {
		serve(path, h);
		mt_looker_let_go(h);
		code = 0;
	}
	munmap(h, MT_STATE_HEADER_BYTES);
	return code;
}

static bool is_state_name(const char *name)
{
	int pid, sequence, used = 0;

	return sscanf(name, "%d.%d.mtk%n", &pid, &sequence, &used) == 2 && used && !name[used];
}

/* Those that inotify has told of, in order. */
static void serve_events(int fd, const char *dir, mt_looker_serve *serve)
{
	union {
		struct inotify_event event;
		char bytes[16384];
	} u;
	ssize_t len = read(fd, &u, sizeof(u));

	for (ssize_t at = 0; at < len;) {
		const struct inotify_event *e = (const void *)(u.bytes + at);
		mt_auto(free) char *path =
			e->len && is_state_name(e->name) ? mt_path_join(dir, e->name) : NULL;

		if (path)
			mt_looker_answer(path, serve);
		at += (ssize_t)(sizeof(*e) + e->len);
	}
}

static void ignore_signals(void)
{
	static const int ignored[] = {SIGINT,  SIGQUIT, SIGHUP,  SIGTERM,
				      SIGUSR1, SIGUSR2, SIGPIPE, SIGTSTP};
	sigset_t none;

	for (size_t i = 0; i < sizeof(ignored) / sizeof(*ignored); i++)
		signal(ignored[i], SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static void run(int watch, int life, const char *dir, mt_looker_serve *serve)
{
	struct pollfd fds[] = {{.fd = watch, .events = POLLIN}, {.fd = life, .events = POLLIN}};

	prctl(PR_SET_NAME, "memtrack-looker");
	ignore_signals();
	for (;;) {
		if (poll(fds, 2, -1) < 0 && errno != EINTR)
			return;
		if (fds[0].revents & POLLIN)
			serve_events(watch, dir, serve);
		else if (fds[1].revents)
			return;
	}
}

/* ---- the process ---- */

/* The grandchild: nobody who lists the launcher's children finds it beside the program. */
static void begin(int watch, const int life[2], const int end[2], const char *dir,
		  mt_looker_serve *serve)
{
	pid_t pid = fork();

	if (pid) {
		(void)!write(end[1], &pid, sizeof(pid));
		_exit(0);
	}
	close(life[1]);
	close(end[0]);
	run(watch, life[0], dir, serve);
	_exit(0);
}

static int start(int watch, const int life[2], const int end[2], const char *dir,
		 mt_looker_serve *serve, struct mt_looker *l)
{
	pid_t child = fork();
	ssize_t got;

	if (!child)
		begin(watch, life, end, dir, serve);
	if (child < 0)
		return -errno;
	while (waitpid(child, NULL, 0) < 0 && errno == EINTR)
		;
	do
		got = read(end[0], &l->pid, sizeof(l->pid));
	while (got < 0 && errno == EINTR);
	return got == sizeof(l->pid) && l->pid > 0 ? 0 : -EAGAIN;
}

static int start_between_pipes(int watch, const char *dir, mt_looker_serve *serve,
			       struct mt_looker *l)
{
	int life[2], end[2], code;

	if (pipe2(life, O_CLOEXEC))
		return -errno;
	if (pipe2(end, O_CLOEXEC)) {
		code = -errno;
		close(life[0]);
		close(life[1]);
		return code;
	}
	code = start(watch, life, end, dir, serve, l);
	close(life[0]);
	close(end[1]);
	l->life = life[1];
	l->end = end[0];
	if (code) {
		close(life[1]);
		close(end[0]);
	}
	return code;
}

int mt_looker_start(const char *dir, mt_looker_serve *serve, struct mt_looker **ret_looker,
		    struct mt_err *err)
{
	mt_auto(close) int watch = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	struct mt_looker *l = mt_alloc_zero(1, sizeof(*l));
	int code = !l ? -ENOMEM : watch < 0 ? -errno : 0;

	if (!code && inotify_add_watch(watch, dir, IN_ATTRIB) < 0)
		code = -errno;
	if (!code)
		code = start_between_pipes(watch, dir, serve, l);
	if (code) {
		free(l);
		return mt_err_set_errno(err, code, "cannot watch '%s' for processes that end", dir);
	}
	*ret_looker = l;
	return 0;
}

pid_t mt_looker_pid(const struct mt_looker *l)
{
	return l->pid;
}

void mt_looker_stop(struct mt_looker *l)
{
	struct pollfd end;
	int ready;

	if (!l)
		return;
	close(l->life);
	end = (struct pollfd){.fd = l->end};
	while ((ready = poll(&end, 1, SEARCH_MS)) < 0 && errno == EINTR)
		;
	if (!ready) /* the result is not known then */
		kill(l->pid, SIGKILL);
	close(l->end);
	free(l);
}
