/* SPDX-License-Identifier: MIT */
/*
 * One round: look for new files, see which processes have ended, visit what is due, let be taken
 * what is over. Between rounds the thread sleeps until the kernel tells of a new file (inotify) or
 * an ended process (pidfd), or a deadline comes. What always holds: a file is in `active` from when
 * it was first seen until it was taken or has had its LAST visit and is not to be taken, and
 * nothing but the companion's thread touches the lists.
 */

#include "record/companion.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/map.h"
#include "core/cc.h"
#include "core/sys.h"
#include "formats/mtk_read.h"
#include "record/statedir.h"
#include "target/process.h"
#include "wire/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define LOOK_NS (MT_COMPANION_LOOK_MS * 1000000ull)
#define ALIVE_NS 100000000ull /* a process is asked for at most that often */
#define UNREADY_NS 20000000ull
#define STRAYS_NS 10000000000ull
#define RETRY_NS (MT_COMPANION_RETRY_MS * 1000000ull)
#define BUSY_NS 20000000ull   /* a file that is still mapped is asked for after that, and then */
#define GATHER_NS 10000000ull /* less and less often. What comes within this is one round */
enum {
	DIRS_MAX = 64,
	EVENTS_MAX = 64,
	PIDFDS_MOST = 4096,
	NAME_BYTES = 256,
	UNREADY_TRIES = 50,
	MODES_MINOR = 1, /* from this version on the mode is stored last */
};

struct dir {
	char *path; /* owned; for messages */
	int fd;
	bool is_stray;
	dev_t device;
	ino_t inode;
	struct timespec changed; /* when it was looked at last */
	bool is_fresh;           /* it may have changed since in the same tick of its clock */
	bool is_watched;         /* by inotify */
};

struct known {
	char *name, *path;    /* owned */
	uint32_t dir, number; /* number: among the names */
	pid_t pid;
	int sequence;
	uint64_t proc_start, start_ns; /* of its header */
	bool is_ready;                 /* its header is complete */
	bool is_foreign;               /* of another run */
	bool is_replaced;              /* its process writes a later file */
	bool is_gone;                  /* its process has ended */
	bool is_over;                  /* it had its LAST visits, and waits to be taken */
	bool is_away;                  /* it does not exist any more */
	int pidfd;                     /* of its process, -1: none */
	unsigned tries;
	uint64_t asked_ns;         /* when its process was last seen alive */
	uint64_t take_ns, busy_ns; /* when it is asked for again; the pause after that */
	uint64_t due_ns[MT_COMPANION_TASKS];
	void *data[MT_COMPANION_TASKS];
};

struct mt_companion {
	struct mt_companion_task task[MT_COMPANION_TASKS];
	size_t task_count;
	mt_companion_take *take; /* NULL: files stay */
	void *take_context;
	uint64_t take_ns; /* none is taken before */
	pthread_t thread;
	int bell;    /* eventfd */
	int events;  /* epoll: the bell, inotify, pidfds */
	int inotify; /* -1: none */
	uint32_t pidfds, pidfds_max;
	uint32_t stop; /* atomic */
	uint32_t rung; /* atomic */
	pid_t launcher;
	uint64_t since_ns;
	uint8_t boot_id[16];
	struct dir dir[DIRS_MAX];
	uint32_t dirs;
	uint64_t strays_ns;      /* when they are to be looked for again */
	struct mt_strings names; /* of all files ever seen, with the inode of their directory */
	struct mt_map is_free;   /* by number of the name: 1, the file is gone */
	struct known **active;   /* owned, with what it points to */
	size_t active_count, active_capacity;
};

static uint64_t now_ns(void)
{
	return mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
}

/* ---- finding files ---- */

static void close_pidfd(struct mt_companion *c, struct known *k)
{
	if (k->pidfd < 0)
		return;
	close(k->pidfd);
	k->pidfd = -1;
	c->pidfds--;
}

static void known_free(struct known *k)
{
	free(k->name);
	free(k->path);
	free(k);
}

/* Of two files of one process: the number of one that was taken is used again. */
static bool is_older(const struct known *a, const struct known *b)
{
	if (a->start_ns != b->start_ns)
		return a->start_ns < b->start_ns;
	return a->sequence < b->sequence;
}

/* Earlier files of the same process: it became another program. */
static void replace_older(struct mt_companion *c, struct known *k)
{
	for (size_t i = 0; i < c->active_count; i++) {
		struct known *o = c->active[i];

		if (o != k && o->is_ready && o->pid == k->pid && o->proc_start == k->proc_start)
			(is_older(o, k) ? o : k)->is_replaced = true;
	}
}

/* number: among the names. */
static void add_known(struct mt_companion *c, uint32_t dir, const char *name, uint32_t number,
		      int pid, int sequence)
{
	struct known **grown = mt_alloc_grow(c->active, &c->active_capacity, c->active_count + 1,
					     sizeof(struct known *));
	struct known *k = mt_alloc_zero(1, sizeof(*k));

	if (grown)
		c->active = grown;
	if (!grown || !k) {
		free(k);
		return;
	}
	k->name = strdup(name);
	if (k->name && asprintf(&k->path, "%s/%s", c->dir[dir].path, name) < 0)
		k->path = NULL;
	if (!k->name || !k->path) {
		known_free(k);
		return;
	}
	k->dir = dir;
	k->number = number;
	k->pid = pid;
	k->pidfd = -1;
	k->sequence = sequence;
	c->active[c->active_count++] = k;
}

/* The name of a file that is gone may be that of another. */
static void set_free(struct mt_companion *c, uint32_t number, bool is_free)
{
	if (is_free || mt_map_get(&c->is_free, number, NULL))
		(void)!mt_map_set(&c->is_free, number, is_free);
}

static bool is_free(const struct mt_companion *c, uint32_t number)
{
	uint64_t value;

	return mt_map_get(&c->is_free, number, &value) && value;
}

static void see_name(struct mt_companion *c, uint32_t dir, const char *name)
{
	int pid, sequence, used = 0;
	uint32_t before = c->names.count, number;
	char key[NAME_BYTES + 16];

	if (sscanf(name, "%d.%d.mtk%n", &pid, &sequence, &used) != 2 || !used || name[used] ||
	    pid <= 0)
		return;
	snprintf(key, sizeof(key), "%llx/%s", (unsigned long long)c->dir[dir].inode, name);
	if (mt_strings_intern(&c->names, key, strlen(key), &number) ||
	    (number <= before && !is_free(c, number)))
		return;
	set_free(c, number, false);
	add_known(c, dir, name, number, pid, sequence);
}

static bool same_time(const struct timespec *a, const struct timespec *b)
{
	return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

/* The file system's clock is coarse: what happens in the tick of the last change leaves no trace.
 */
static bool is_recent(const struct timespec *t)
{
	enum { TICK_NS = 50000000 };
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (now.tv_sec - t->tv_sec) * 1000000000ll + now.tv_nsec - t->tv_nsec < TICK_NS;
}

static void look_at(struct mt_companion *c, uint32_t number)
{
	struct dir *d = &c->dir[number];
	struct stat st;
	DIR *stream;
	int fd;

	if (d->fd < 0 || fstat(d->fd, &st) || (!d->is_fresh && same_time(&d->changed, &st.st_mtim)))
		return;
	d->is_fresh = is_recent(&st.st_mtim);
	d->changed = st.st_mtim;
	fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	stream = fd < 0 ? NULL : fdopendir(fd);
	if (!stream) {
		d->is_fresh = true; /* again at the next round */
		if (fd >= 0)
			close(fd);
		return;
	}
	for (struct dirent *e; (e = readdir(stream));)
		see_name(c, number, e->d_name);
	closedir(stream);
}

/* One that was removed gives its place to another. */
static struct dir *find_place(struct mt_companion *c)
{
	for (uint32_t i = 0; i < c->dirs; i++) {
		bool is_named = c->dir[i].fd >= 0;

		for (size_t k = 0; k < c->active_count && !is_named; k++)
			is_named = c->active[k]->dir == i;
		if (!is_named)
			return &c->dir[i];
	}
	return c->dirs < DIRS_MAX ? &c->dir[c->dirs] : NULL;
}

static bool watch_dir(const struct mt_companion *c, int fd)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return c->inotify >= 0 &&
	       inotify_add_watch(c->inotify, path, IN_CREATE | IN_MOVED_TO | IN_ONLYDIR) >= 0;
}

/* Takes the descriptor, also on failure. */
static int add_dir(struct mt_companion *c, const char *path, int fd, bool is_stray)
{
	struct dir *d = find_place(c);
	struct stat st;
	char *copy;

	if (fd < 0)
		return -errno;
	if (!d || fstat(fd, &st)) {
		close(fd);
		return -EMFILE;
	}
	for (uint32_t i = 0; i < c->dirs; i++)
		if (c->dir[i].fd >= 0 && c->dir[i].device == st.st_dev &&
		    c->dir[i].inode == st.st_ino) {
			close(fd);
			return 0;
		}
	copy = strdup(path);
	if (!copy) {
		close(fd);
		return -ENOMEM;
	}
	*d = (struct dir){.path = copy,
			  .fd = fd,
			  .is_stray = is_stray,
			  .device = st.st_dev,
			  .inode = st.st_ino,
			  .is_fresh = true,
			  .is_watched = watch_dir(c, fd)};
	c->dirs = MT_MAX(c->dirs, (uint32_t)(d - c->dir) + 1);
	return 0;
}

/* A directory of strays whose last file was taken. */
static void drop_dir(struct dir *d)
{
	if (!d->is_stray || rmdir(d->path))
		return;
	close(d->fd); /* and inotify forgets it */
	free(d->path);
	*d = (struct dir){.fd = -1};
}

static int add_stray_dir(void *context, const char *path, int fd)
{
	add_dir(context, path, fcntl(fd, F_DUPFD_CLOEXEC, 0), true);
	return 0;
}

static void look(struct mt_companion *c, uint64_t now, bool is_last)
{
	if (now >= c->strays_ns || is_last) {
		mt_statedir_each_of(c->launcher, add_stray_dir, c);
		c->strays_ns = now + STRAYS_NS;
	}
	for (uint32_t i = 0; i < c->dirs; i++)
		look_at(c, i);
}

/* ---- files ---- */

static int open_file(const struct mt_companion *c, const struct known *k)
{
	int dir = c->dir[k->dir].fd, fd;
	struct stat st;

	if (dir < 0) { /* it was removed with all that was in it */
		errno = ENOENT;
		return -1;
	}
	fd = openat(dir, k->name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);

	if (fd >= 0 && (fstat(fd, &st) || !S_ISREG(st.st_mode))) {
		close(fd);
		return -1;
	}
	return fd;
}

static bool is_ours(const struct mt_companion *c, const struct known *k,
		    const struct mt_state_header *h)
{
	return !c->dir[k->dir].is_stray || (h->launcher_pid == (uint32_t)c->launcher &&
					    !memcmp(h->boot_id, c->boot_id, sizeof(h->boot_id)) &&
					    h->mono_start_ns >= c->since_ns);
}

/* The kernel shall tell when the process ends; where it cannot, we ask now and then. */
static void watch_process(struct mt_companion *c, struct known *k, pid_t pid)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = k};

	if (c->events < 0 || c->pidfds >= c->pidfds_max)
		return;
	k->pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
	if (k->pidfd < 0)
		return;
	c->pidfds++;
	if (epoll_ctl(c->events, EPOLL_CTL_ADD, k->pidfd, &event))
		close_pidfd(c, k);
}

static bool is_complete(const struct mt_state_header *h)
{
	static const uint8_t no_boot_id[16];

	return h->pid && h->proc_start && memcmp(h->boot_id, no_boot_id, sizeof(no_boot_id)) &&
	       (h->version_minor < MODES_MINOR || h->first_mode);
}

/* Nothing can be said of a header that is not complete, and its process is gone. */
static bool is_stillborn(const struct known *k)
{
	static const uint8_t no_boot_id[16];

	return !mt_process_is_running(k->pid, 0, no_boot_id);
}

/* What the file's header and its process say. */
static void look_into(struct mt_companion *c, struct known *k, int fd)
{
	struct mt_state_header h;

	k->asked_ns = now_ns();
	if (mt_mtk_read_header_fd(fd, k->path, &h, NULL) || !is_complete(&h)) {
		k->tries++;
		k->is_over = c->take && k->is_gone; /* it was gone before this reading */
		k->is_gone = is_stillborn(k);
		return;
	}
	k->is_foreign = !is_ours(c, k, &h);
	if (k->is_foreign)
		return;
	if (!k->is_ready) {
		k->is_gone = false;
		k->proc_start = h.proc_start;
		k->start_ns = h.mono_start_ns;
		k->is_ready = true;
		replace_older(c, k);
		watch_process(c, k, h.pid); /* before its start is compared: it is no other */
	}
	k->is_gone |= !mt_mtk_process_alive(&h);
	if (k->is_gone)
		close_pidfd(c, k);
}

/* As others see it. */
static struct mt_companion_file file_of(const struct mt_companion *c, const struct known *k, int fd)
{
	return (struct mt_companion_file){
		.fd = fd,
		.dir_fd = c->dir[k->dir].fd,
		.name = k->name,
		.path = k->path,
		.pid = k->pid,
		.is_stray = c->dir[k->dir].is_stray,
	};
}

static void visit(struct mt_companion *c, struct known *k, size_t task, int fd,
		  enum mt_companion_why why)
{
	const struct mt_companion_file file = file_of(c, k, fd);
	const struct mt_companion_task *t = &c->task[task];

	t->visit(t->context, &file, why, &k->data[task]);
	k->due_ns[task] = t->period_ns ? now_ns() + t->period_ns : UINT64_MAX;
}

/* Those that are due, or all. */
static void visit_tasks(struct mt_companion *c, struct known *k, int fd, bool is_rung, bool is_last)
{
	uint64_t now = now_ns();

	for (size_t i = 0; k->is_ready && i < c->task_count; i++)
		if (is_last || is_rung || k->due_ns[i] <= now)
			visit(c, k, i, fd,
			      is_last   ? MT_COMPANION_LAST
			      : is_rung ? MT_COMPANION_RUNG
					: MT_COMPANION_DUE);
}

static bool is_any_due(const struct mt_companion *c, const struct known *k, uint64_t now)
{
	for (size_t i = 0; i < c->task_count; i++)
		if (k->due_ns[i] <= now)
			return true;
	return false;
}

static void put_off(struct known *k, uint64_t now)
{
	k->busy_ns = k->busy_ns ? MT_MIN(k->busy_ns * 2, RETRY_NS) : BUSY_NS;
	k->take_ns = now + k->busy_ns;
}

/* True: nobody waits for it any more. */
static bool offer_fd(struct mt_companion *c, struct known *k, int fd, uint64_t now)
{
	const struct mt_companion_file file = file_of(c, k, fd);
	int code = mt_file_has_writer(fd);

	if (code > 0) { /* a child that has no state yet counts in it, or a pid means another */
		put_off(k, now);
		return false;
	}
	if (code < 0) /* the kernel does not say: at the end */
		return true;
	code = c->take(c->take_context, &file, k->is_replaced);
	if (code == -EBUSY) {
		put_off(k, now);
	} else if (code < 0) { /* a full disk: one try is enough for all */
		c->take_ns = now + RETRY_NS;
	}
	k->is_away = code == MT_COMPANION_TAKEN;
	if (k->is_away)
		drop_dir(&c->dir[k->dir]);
	return code >= 0;
}

static bool offer(struct mt_companion *c, struct known *k, bool is_last)
{
	uint64_t now = now_ns();
	bool is_done;
	int fd;

	if (!c->take || is_last)
		return true;
	if (now < k->take_ns || now < c->take_ns)
		return false;
	fd = open_file(c, k);
	k->is_away = fd < 0 && errno == ENOENT;
	if (fd < 0)
		return k->is_away;
	is_done = offer_fd(c, k, fd, now);
	close(fd);
	return is_done;
}

static bool is_to_be_asked(const struct known *k, uint64_t now)
{
	return k->pidfd < 0 && now >= k->asked_ns + ALIVE_NS;
}

/* True: the file has had its LAST visits. */
static bool serve_fd(struct mt_companion *c, struct known *k, int fd, bool is_rung, bool is_last)
{
	if (k->is_ready && !k->is_gone && is_to_be_asked(k, now_ns()))
		look_into(c, k, fd);
	is_last |= k->is_gone || k->is_replaced;
	visit_tasks(c, k, fd, is_rung, is_last);
	return is_last;
}

/* True: the file is done with. */
static bool serve_file(struct mt_companion *c, struct known *k, bool is_rung, bool is_last)
{
	uint64_t now = now_ns();
	int fd;

	if (k->is_foreign)
		return true;
	if (k->is_over)
		return offer(c, k, is_last);
	if (!is_rung && !is_last && !k->is_replaced && !k->is_gone && k->is_ready &&
	    !is_any_due(c, k, now) && !is_to_be_asked(k, now))
		return false;
	fd = open_file(c, k);
	if (fd < 0) {
		k->is_away = errno == ENOENT;
		if (!k->is_away && !is_last)
			return false; /* again at the next round */
		visit_tasks(c, k, -1, false, true);
		return true;
	}
	k->is_over = serve_fd(c, k, fd, is_rung, is_last);
	close(fd);
	return k->is_over && offer(c, k, is_last);
}

/* Before anything is served it is known which file of a process is the last. */
static void look_into_new(struct mt_companion *c)
{
	for (size_t i = 0; i < c->active_count; i++) {
		struct known *k = c->active[i];
		int fd = k->is_ready || k->is_over ? -1 : open_file(c, k);

		if (fd < 0)
			continue;
		look_into(c, k, fd);
		close(fd);
	}
}

static void serve_files(struct mt_companion *c, bool is_rung, bool is_last)
{
	size_t kept = 0;

	look_into_new(c);
	for (size_t i = 0; i < c->active_count; i++) {
		struct known *k = c->active[i];

		if (serve_file(c, k, is_rung, is_last)) {
			close_pidfd(c, k);
			if (k->is_away)
				set_free(c, k->number, true);
			known_free(k);
		} else {
			c->active[kept++] = k;
		}
	}
	c->active_count = kept;
}

/* ---- the thread ---- */

/* When one file wants to be looked at again. */
static uint64_t next_of(const struct mt_companion *c, const struct known *k, uint64_t now)
{
	uint64_t next = UINT64_MAX;

	if (k->is_over)
		return MT_MAX(k->take_ns, c->take_ns);
	if (!k->is_ready)
		return now + (k->tries < UNREADY_TRIES ? UNREADY_NS : LOOK_NS);
	if (k->pidfd < 0)
		next = now + LOOK_NS;
	for (size_t t = 0; t < c->task_count; t++)
		next = MT_MIN(next, k->due_ns[t]);
	return next;
}

static uint64_t next_round(const struct mt_companion *c, uint64_t now)
{
	uint64_t next = c->strays_ns;

	for (uint32_t i = 0; i < c->dirs; i++)
		if (c->dir[i].fd >= 0 && !c->dir[i].is_watched)
			next = MT_MIN(next, now + LOOK_NS);
	for (size_t i = 0; i < c->task_count; i++)
		if (c->task[i].period_ns)
			next = MT_MIN(next, now + c->task[i].period_ns);
	for (size_t i = 0; i < c->active_count; i++)
		next = MT_MIN(next, next_of(c, c->active[i], now));
	return next;
}

static void drain_inotify(struct mt_companion *c)
{
	char buf[4096];

	while (read(c->inotify, buf, sizeof(buf)) > 0)
		;
	for (uint32_t i = 0; i < c->dirs; i++)
		c->dir[i].is_fresh = true;
}

/* Returns whether somebody rang. */
static bool take_events(struct mt_companion *c, const struct epoll_event *event, int count)
{
	bool is_rung = false;
	uint64_t rings;

	for (int i = 0; i < count; i++) {
		struct known *k = event[i].data.ptr;

		if (event[i].data.ptr == &c->bell) {
			(void)!read(c->bell, &rings, sizeof(rings));
			is_rung = true;
		} else if (event[i].data.ptr == &c->inotify) {
			drain_inotify(c);
		} else {
			k->is_gone = true;
			close_pidfd(c, k);
		}
	}
	return is_rung;
}

/* Processes come and go in crowds: what happens within GATHER_NS is one round. */
static void sleep_until(struct mt_companion *c, uint64_t when)
{
	struct timespec gather = {0, GATHER_NS};
	struct epoll_event event[EVENTS_MAX];
	struct pollfd bell = {.fd = c->bell, .events = POLLIN};
	uint64_t now = now_ns(), left = when > now ? when - now : 0;
	int ms = (int)MT_MIN((left + 999999) / 1000000, (uint64_t)INT_MAX);
	int count = epoll_wait(c->events, event, EVENTS_MAX, ms);

	if (count > 0 && !take_events(c, event, count))
		ppoll(&bell, 1, &gather, NULL);
}

static void *serve(void *opaque)
{
	struct mt_companion *c = opaque;
	bool is_last = false;

	while (!is_last) {
		/* pairs with the release of stop: then the program has ended */
		is_last = __atomic_load_n(&c->stop, __ATOMIC_ACQUIRE) != 0;
		bool is_rung = __atomic_exchange_n(&c->rung, 0, __ATOMIC_ACQUIRE) != 0;

		look(c, now_ns(), is_last);
		serve_files(c, is_rung, is_last);
		if (!is_last)
			sleep_until(c, next_round(c, now_ns()));
	}
	return NULL;
}

static void companion_free(struct mt_companion *c)
{
	for (size_t i = 0; i < c->active_count; i++) {
		close_pidfd(c, c->active[i]);
		known_free(c->active[i]);
	}
	free(c->active);
	mt_strings_done(&c->names);
	mt_map_done(&c->is_free);
	for (uint32_t i = 0; i < c->dirs; i++) {
		free(c->dir[i].path);
		if (c->dir[i].fd >= 0)
			close(c->dir[i].fd);
	}
	if (c->bell >= 0)
		close(c->bell);
	if (c->inotify >= 0)
		close(c->inotify);
	if (c->events >= 0)
		close(c->events);
	free(c);
}

/* What wakes the thread. 0 or a negative errno value. */
static int open_events(struct mt_companion *c)
{
	struct epoll_event bell = {.events = EPOLLIN, .data.ptr = &c->bell};
	struct epoll_event files = {.events = EPOLLIN, .data.ptr = &c->inotify};
	struct rlimit limit = {0};

	c->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->events = epoll_create1(EPOLL_CLOEXEC);
	c->inotify = inotify_init1(IN_CLOEXEC | IN_NONBLOCK);
	if (c->bell < 0 || c->events < 0 || epoll_ctl(c->events, EPOLL_CTL_ADD, c->bell, &bell))
		return -errno;
	if (c->inotify >= 0 && epoll_ctl(c->events, EPOLL_CTL_ADD, c->inotify, &files)) {
		close(c->inotify);
		c->inotify = -1;
	}
	getrlimit(RLIMIT_NOFILE, &limit); /* half for us: reports and recordings need some */
	c->pidfds_max = (uint32_t)MT_MIN(limit.rlim_cur / 2, (rlim_t)PIDFDS_MOST);
	return 0;
}

/* The thread takes no signals: they are the launcher's to pass on. */
static int start_thread(struct mt_companion *c)
{
	sigset_t all, old;
	int code;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	code = pthread_create(&c->thread, NULL, serve, c);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -code;
}

int mt_companion_start(const struct mt_companion_run *run, struct mt_companion **ret_companion,
		       struct mt_err *err)
{
	struct mt_companion *c;
	int code;

	*ret_companion = NULL;
	if (!run->task_count && !run->take)
		return 0;
	c = run->task_count <= MT_COMPANION_TASKS ? mt_alloc_zero(1, sizeof(*c)) : NULL;
	if (!c)
		return mt_err_no_memory(err);
	if (run->task_count)
		memcpy(c->task, run->task, run->task_count * sizeof(*run->task));
	c->take = run->take;
	c->take_context = run->take_context;
	c->task_count = run->task_count;
	c->launcher = run->launcher;
	c->since_ns = run->since_ns;
	c->strays_ns = now_ns() + LOOK_NS;
	mt_process_boot_id(c->boot_id);
	code = open_events(c);
	if (!code)
		code = add_dir(c, run->dir, open(run->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC),
			       false);
	if (!code)
		code = start_thread(c);
	if (code) {
		companion_free(c);
		return mt_err_set_errno(err, code, "cannot watch the state files in '%s'",
					run->dir);
	}
	*ret_companion = c;
	return 0;
}

void mt_companion_ring(struct mt_companion *c)
{
	const uint64_t one = 1;
	int saved = errno;

	if (!c)
		return;
	__atomic_store_n(&c->rung, 1, __ATOMIC_RELEASE);
	(void)!write(c->bell, &one, sizeof(one));
	errno = saved;
}

void mt_companion_stop(struct mt_companion *c)
{
	if (!c)
		return;
	__atomic_store_n(&c->stop, 1, __ATOMIC_RELEASE); /* pairs with the acquire in serve() */
	mt_companion_ring(c);
	pthread_join(c->thread, NULL);
	companion_free(c);
}
