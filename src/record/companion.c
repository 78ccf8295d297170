/* SPDX-License-Identifier: MIT */
/*
 * One round: look for new files, see which processes have ended, visit what is due. What always
 * holds: a file is in `active` from when it was first seen until its LAST visit, and nothing but
 * the companion's thread touches the lists.
 */

#include "record/companion.h"

#include "base/alloc.h"
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
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_NS (MT_COMPANION_LOOK_MS * 1000000ull)
#define ALIVE_NS 100000000ull /* a process is asked for at most that often */
#define UNREADY_NS 20000000ull
#define STRAYS_NS 10000000000ull
enum {
	DIRS_MAX = 64,
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
};

struct known {
	char *name, *path; /* owned */
	uint32_t dir;
	pid_t pid;
	int sequence;
	bool is_ready;    /* its header is complete */
	bool is_replaced; /* its process writes a later file */
	unsigned tries;
	uint64_t asked_ns; /* when its process was last seen alive */
	uint64_t due_ns[MT_COMPANION_TASKS];
	void *data[MT_COMPANION_TASKS];
};

struct mt_companion {
	struct mt_companion_task task[MT_COMPANION_TASKS];
	size_t task_count;
	pthread_t thread;
	int bell;      /* eventfd */
	uint32_t stop; /* atomic */
	uint32_t rung; /* atomic */
	pid_t launcher;
	uint64_t since_ns;
	uint8_t boot_id[16];
	struct dir dir[DIRS_MAX];
	uint32_t dirs;
	uint64_t strays_ns;      /* when they are to be looked for again */
	struct mt_strings names; /* of all files ever seen, with the number of their directory */
	struct known **active;   /* owned, with what it points to */
	size_t active_count, active_capacity;
};

static uint64_t now_ns(void)
{
	return mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
}

/* ---- finding files ---- */

static void known_free(struct known *k)
{
	free(k->name);
	free(k->path);
	free(k);
}

/* An earlier file of the same process: it became another program. */
static void replace_older(struct mt_companion *c, const struct known *k)
{
	for (size_t i = 0; i < c->active_count; i++)
		if (c->active[i]->pid == k->pid && c->active[i]->sequence < k->sequence)
			c->active[i]->is_replaced = true;
}

static void add_known(struct mt_companion *c, uint32_t dir, const char *name, int pid, int sequence)
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
	k->pid = pid;
	k->sequence = sequence;
	replace_older(c, k);
	c->active[c->active_count++] = k;
}

static void see_name(struct mt_companion *c, uint32_t dir, const char *name)
{
	int pid, sequence, used = 0;
	uint32_t before = c->names.count, number;
	char key[NAME_BYTES + 16];

	if (sscanf(name, "%d.%d.mtk%n", &pid, &sequence, &used) != 2 || !used || name[used] ||
	    pid <= 0)
		return;
	snprintf(key, sizeof(key), "%u/%s", dir, name);
	if (mt_strings_intern(&c->names, key, strlen(key), &number) || number <= before)
		return;
	add_known(c, dir, name, pid, sequence);
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

	if (fstat(d->fd, &st) || (!d->is_fresh && same_time(&d->changed, &st.st_mtim)))
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

/* Takes the descriptor, also on failure. */
static int add_dir(struct mt_companion *c, const char *path, int fd, bool is_stray)
{
	struct dir *d = &c->dir[c->dirs];
	struct stat st;
	char *copy;

	if (fd < 0)
		return -errno;
	if (c->dirs == DIRS_MAX || fstat(fd, &st)) {
		close(fd);
		return -EMFILE;
	}
	for (uint32_t i = 0; i < c->dirs; i++)
		if (c->dir[i].device == st.st_dev && c->dir[i].inode == st.st_ino) {
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
			  .is_fresh = true};
	c->dirs++;
	return 0;
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
	int fd = openat(c->dir[k->dir].fd, k->name,
			O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY);
	struct stat st;

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

enum state { UNREADY, FOREIGN, RUNNING, ENDED };

/* What the file's header and its process say. */
static enum state look_into(struct mt_companion *c, struct known *k, int fd)
{
	static const uint8_t no_boot_id[16];
	struct mt_state_header h;

	if (mt_mtk_read_header_fd(fd, k->path, &h, NULL) || !h.pid || !h.proc_start ||
	    !memcmp(h.boot_id, no_boot_id, sizeof(no_boot_id)) ||
	    (h.version_minor >= MODES_MINOR && !h.first_mode))
		return UNREADY;
	if (!is_ours(c, k, &h))
		return FOREIGN;
	k->is_ready = true;
	return mt_mtk_process_alive(&h) ? RUNNING : ENDED;
}

static void visit(struct mt_companion *c, struct known *k, size_t task, int fd,
		  enum mt_companion_why why)
{
	const struct mt_companion_file file = {
		.fd = fd,
		.dir_fd = c->dir[k->dir].fd,
		.name = k->name,
		.path = k->path,
		.pid = k->pid,
	};
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

/* True: the file is done with. */
static bool serve_file(struct mt_companion *c, struct known *k, bool is_rung, bool is_last)
{
	uint64_t now = now_ns();
	enum state state = RUNNING;
	int fd;

	if (!is_rung && !is_last && !k->is_replaced && k->is_ready && !is_any_due(c, k, now) &&
	    now < k->asked_ns + ALIVE_NS)
		return false;
	fd = open_file(c, k);
	if (fd < 0) {
		if (errno != ENOENT && !is_last)
			return false; /* again at the next round */
		visit_tasks(c, k, -1, false, true);
		return true;
	}
	if (!k->is_ready || now >= k->asked_ns + ALIVE_NS) {
		state = look_into(c, k, fd);
		k->asked_ns = now;
		k->tries += state == UNREADY;
	}
	is_last |= state == ENDED || k->is_replaced;
	visit_tasks(c, k, fd, is_rung, is_last);
	close(fd);
	return is_last || state == FOREIGN;
}

static void serve_files(struct mt_companion *c, bool is_rung, bool is_last)
{
	size_t kept = 0;

	for (size_t i = 0; i < c->active_count; i++) {
		struct known *k = c->active[i];

		if (serve_file(c, k, is_rung, is_last))
			known_free(k);
		else
			c->active[kept++] = k;
	}
	c->active_count = kept;
}

/* ---- the thread ---- */

static uint64_t next_round(const struct mt_companion *c, uint64_t now)
{
	uint64_t next = now + LOOK_NS;

	for (size_t i = 0; i < c->task_count; i++)
		if (c->task[i].period_ns)
			next = MT_MIN(next, now + c->task[i].period_ns);
	for (size_t i = 0; i < c->active_count; i++) {
		const struct known *k = c->active[i];

		if (!k->is_ready && k->tries < UNREADY_TRIES)
			next = MT_MIN(next, now + UNREADY_NS);
		for (size_t t = 0; k->is_ready && t < c->task_count; t++)
			next = MT_MIN(next, k->due_ns[t]);
	}
	return next;
}

static void sleep_until(struct mt_companion *c, uint64_t when)
{
	uint64_t now = now_ns(), left = when > now ? when - now : 0, rings;
	struct timespec t = {(time_t)(left / 1000000000), (long)(left % 1000000000)};
	struct pollfd bell = {.fd = c->bell, .events = POLLIN};

	if (ppoll(&bell, 1, &t, NULL) > 0)
		(void)!read(c->bell, &rings, sizeof(rings));
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
	for (size_t i = 0; i < c->active_count; i++)
		known_free(c->active[i]);
	free(c->active);
	mt_strings_done(&c->names);
	for (uint32_t i = 0; i < c->dirs; i++) {
		free(c->dir[i].path);
		close(c->dir[i].fd);
	}
	if (c->bell >= 0)
		close(c->bell);
	free(c);
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
	if (!run->task_count)
		return 0;
	c = run->task_count <= MT_COMPANION_TASKS ? mt_alloc_zero(1, sizeof(*c)) : NULL;
	if (!c)
		return mt_err_no_memory(err);
	memcpy(c->task, run->task, run->task_count * sizeof(*run->task));
	c->task_count = run->task_count;
	c->launcher = run->launcher;
	c->since_ns = run->since_ns;
	c->strays_ns = now_ns() + LOOK_NS;
	mt_process_boot_id(c->boot_id);
	c->bell = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	code = c->bell < 0 ? -errno : 0;
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
