/* SPDX-License-Identifier: MIT */
/*
 * Files of one process have rising SEQ numbers: each but the last ended when the process became
 * another program. How the last one ended is known for the launcher's own child only.
 */

#include "record/collect.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/path.h"
#include "core/clock.h"
#include "core/sys.h"
#include "formats/mtk_read.h"
#include "formats/mtk_write.h"
#include "formats/mts_read.h"
#include "record/pattern.h"
#include "record/recording.h"
#include "record/statedir.h"
#include "target/process.h"
#include "wire/state.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { COLLISIONS_MAX = 10000, STRING_MAX = 4096, SERIES_MAX = 1 << 30 };

void mt_collection_done(struct mt_collection *c)
{
	if (!c)
		return;
	for (size_t i = 0; i < c->count; i++) {
		free(c->item[i].path);
		free(c->item[i].program);
		free(c->item[i].why);
		free(c->item[i].series);
		free(c->item[i].series_why);
	}
	free(c->item);
	*c = (struct mt_collection){0};
}

/* Takes ownership of path, also on failure. */
static int add_item(struct mt_collection *c, enum mt_collect_kind kind, pid_t pid, char *path,
		    const char *program, const char *why)
{
	struct mt_collect_item *item =
		mt_alloc_grow(c->item, &c->capacity, c->count + 1, sizeof(*item));

	if (item)
		c->item = item;
	if (!item || !path) {
		free(path);
		return -ENOMEM;
	}
	item = &c->item[c->count];
	*item = (struct mt_collect_item){.kind = kind, .pid = pid, .path = path};
	item->program = strdup(program);
	item->why = why ? strdup(why) : NULL;
	c->count++;
	return item->program && (!why || item->why) ? 0 : -ENOMEM;
}

static int is_state_file(const struct dirent *e)
{
	int pid, seq, used = 0;

	return sscanf(e->d_name, "%d.%d.mtk%n", &pid, &seq, &used) == 2 && used && !e->d_name[used];
}

/* An empty file that nobody has made yet. 0 or a negative errno value. */
static int reserve(const char *path)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Both files, or neither. */
static int reserve_with_recording(const char *path)
{
	mt_auto(free) char *recording = mt_recording_name(path);
	int code = recording ? reserve(path) : -ENOMEM;

	if (code)
		return code;
	code = reserve(recording);
	if (code)
		unlink(path);
	return code;
}

/*
 * The first free name of the pattern, reserved by an empty file, but not `avoided` (may be NULL).
 * Heap; NULL with *err.
 */
static char *reserve_output(const char *path, const char *avoided, bool has_recording,
			    struct mt_err *err)
{
	for (unsigned attempt = 1; attempt <= COLLISIONS_MAX; attempt++) {
		char *numbered = mt_pattern_numbered(path, attempt);
		int code = !numbered                               ? -ENOMEM
			   : avoided && !strcmp(numbered, avoided) ? -EEXIST
			   : has_recording ? reserve_with_recording(numbered)
					   : reserve(numbered);

		if (!code)
			return numbered;
		if (!numbered || code != -EEXIST) {
			mt_err_set_errno(err, code, "cannot create '%s'",
					 numbered ? numbered : path);
			free(numbered);
			return NULL;
		}
		free(numbered);
	}
	mt_err_set(err, -EEXIST, "cannot create '%s': too many files of that name", path);
	return NULL;
}

/*
 * A pair of clock readings that calibrates the file's time units, when its process ran since this
 * boot. For the process that ended just now it is the present; for others the last time they noted,
 * so that ages count up to their end.
 */
static void calibrate(const struct mt_state_header *h, bool ended_now, struct mt_mtk_finish *f)
{
	uint64_t ticks = mt_clock_ticks(), mono_ns = mt_sys_clock_ns(MT_CLOCK_MONOTONIC);
	uint64_t last = MT_MAX(h->now_unit, 1) << MT_MIN(h->unit_shift, 40u);
	uint8_t boot_id[16];

	if (mt_process_boot_id(boot_id) || memcmp(boot_id, h->boot_id, sizeof(boot_id)))
		return;
	if (ticks <= h->tick_start || mono_ns <= h->mono_start_ns)
		return;
	if (!ended_now && last < ticks - h->tick_start) {
		long double rate =
			(long double)(mono_ns - h->mono_start_ns) / (ticks - h->tick_start);

		mono_ns = h->mono_start_ns + (uint64_t)(last * rate);
		ticks = h->tick_start + last;
	}
	f->mono_mark_ns = mono_ns;
	f->tick_mark = ticks;
}

/* How the process of this file ended. is_last: no later file of the same process. */
static struct mt_mtk_finish find_end(const struct mt_state_header *h, bool is_last,
				     const struct mt_collect_end *end)
{
	struct mt_mtk_finish f = {.end_kind = MT_END_UNKNOWN};

	if (h->end_kind != MT_END_RUNNING)
		return (struct mt_mtk_finish){.end_kind = MT_END_RUNNING};
	if (!is_last || h->exec_pending) {
		f.end_kind = MT_END_EXEC;
	} else if (end && end->pid && h->pid == end->pid && WIFEXITED(end->status)) {
		f.end_kind = MT_END_EXITED;
		f.end_code = WEXITSTATUS(end->status);
	} else if (end && end->pid && h->pid == end->pid && WIFSIGNALED(end->status)) {
		f.end_kind = MT_END_SIGNALED;
		f.end_code = WTERMSIG(end->status);
	}
	return f;
}

/* What is left of a budget. */
struct purse {
	struct mt_collect_budget left;
	bool has_file; /* one was looked at: from now on time counts */
	bool is_spent; /* a step was refused */
};

/* Whether one more step is paid for; purse NULL: always. */
static bool take_step(struct purse *p)
{
	if (!p)
		return true;
	if (!p->left.steps || (p->has_file && mt_sys_clock_ns(MT_CLOCK_MONOTONIC) > p->left.end_ns))
		p->is_spent = true;
	else
		p->left.steps--;
	return !p->is_spent;
}

struct job {
	const char *file, *pattern; /* pattern "": the file's own */
	const char *shown;          /* the file's path in messages */
	const struct mt_collect_end *end;
	struct purse *purse; /* NULL: no limit */
	const char *avoided; /* a path that is left for another; NULL: none */
	struct mt_state_header header;
	bool is_last, is_stray;
	char program[STRING_MAX];
};

static char *choose_output(const struct job *job, struct mt_err *err)
{
	char own[STRING_MAX] = "";
	mt_auto(free) char *path = NULL;

	if (!*job->pattern)
		mt_mtk_read_string(job->file, job->header.output_string, own, sizeof(own), NULL);
	if (!*job->pattern && *own != '/') {
		mt_err_set(err, -ENOENT, "it is not known where it should go");
		return NULL;
	}
	path = mt_pattern_expand(*job->pattern ? job->pattern : own, job->program, job->header.pid,
				 job->header.wall_start_ns);
	if (!path) {
		mt_err_no_memory(err);
		return NULL;
	}
	return reserve_output(path, job->avoided, mt_recording_is_there(&job->header), err);
}

static struct mt_mtk_finish finish_of(const struct job *job)
{
	struct mt_mtk_finish finish = find_end(&job->header, job->is_last, job->end);

	calibrate(&job->header, job->is_last && job->end && job->end->pid == job->header.pid,
		  &finish);
	return finish;
}

/* What only the launcher has seen must be known to whoever moves the file later. */
static void note_end(const struct job *job)
{
	struct mt_mtk_finish finish = finish_of(job);

	if (finish.end_kind == MT_END_EXITED || finish.end_kind == MT_END_SIGNALED)
		(void)!mt_mtk_note_end(job->file, &finish);
}

/* Writes the finished state and recording at the reserved places. 0 or a negative errno value. */
static int write_files(const struct job *job, const char *path, const char *recording,
		       struct mt_err *err)
{
	struct mt_mtk_finish finish = finish_of(job);
	mt_auto(free) char *recorded = NULL;
	int code = 0;

	if (recording)
		code = mt_recording_finish(job->file, job->shown, job->pattern, &recorded, err);
	if (!code)
		code = mt_mtk_compact(job->file, path, &finish, err);
	if (!code && recording)
		code = mt_recording_move(recorded, recording, err);
	return code;
}

/* 0: moved, *ret_path is the new place. */
static int move_file(const struct job *job, char **ret_path, struct mt_err *err)
{
	char *path = choose_output(job, err);
	mt_auto(free) char *recording = NULL;
	int code = 0;

	if (!path)
		return err->code ? err->code : -ENOMEM;
	if (mt_recording_is_there(&job->header)) {
		recording = mt_recording_name(path);
		code = recording ? 0 : mt_err_no_memory(err);
	}
	if (!code)
		code = write_files(job, path, recording, err);
	if (code) {
		unlink(path); /* a placeholder, or a state whose recording could not be moved */
		if (recording)
			unlink(recording);
		free(path);
		return code;
	}
	unlink(job->file);
	*ret_path = path;
	return 0;
}

/* A rename, or a copy where it leads to another file system. */
static int move_plain(const char *from, const char *to, struct mt_err *err)
{
	mt_auto(free) char *data = NULL;
	size_t len;
	int code;

	if (!rename(from, to))
		return 0;
	if (errno != EXDEV)
		return mt_err_set_errno(err, errno, "cannot write '%s'", to);
	code = mt_file_read(from, SERIES_MAX, &data, &len, err);
	if (!code)
		code = mt_file_write_atomic(to, data, len, 0600, err);
	if (!code)
		unlink(from);
	return code;
}

/* The snapshots of a state file that was moved to `moved` go beside it. */
static void move_series(const struct job *job, const char *moved, struct mt_collect_item *item)
{
	mt_auto(free) char *from = mt_mts_path(job->file);
	mt_auto(free) char *shown = mt_mts_path(job->shown);
	char *to = mt_mts_path(moved), *rest;
	struct mt_err err = {0};
	struct stat st;

	if (!from || !shown || !to || lstat(from, &st) || !S_ISREG(st.st_mode)) {
		free(to);
		return;
	}
	if (asprintf(&rest, "%s.new", from) >= 0) { /* of a writer that was killed */
		unlink(rest);
		free(rest);
	}
	if (!move_plain(from, to, &err)) {
		item->series = to;
		return;
	}
	free(to);
	if (asprintf(&item->series_why, "its snapshots stay in '%s': %s", shown, err.text) < 0)
		item->series_why = NULL;
}

/* Gives up a state file, and the snapshots beside it. */
static void remove_files(const char *file)
{
	mt_auto(free) char *series = mt_mts_path(file);

	unlink(file);
	if (series)
		unlink(series);
}

static bool is_expired(const char *path)
{
	struct stat st;

	return !stat(path, &st) &&
	       time(NULL) - st.st_mtime > (time_t)MT_COLLECT_KEEP_DAYS * 24 * 3600;
}

static uint64_t stored_bytes(const char *path)
{
	struct stat st;

	return path && !stat(path, &st) ? (uint64_t)st.st_blocks * 512 : 0;
}

static bool is_too_large(const struct job *job)
{
	mt_auto(free) char *series = job->purse ? mt_mts_path(job->file) : NULL;

	return job->purse &&
	       stored_bytes(job->file) + stored_bytes(series) > job->purse->left.file_bytes;
}

/*
 * Whether the file's process may still write it. A header that is being filled does not name its
 * process yet: then the pid of the file name decides.
 */
static bool is_in_use(const struct job *job, int header_code)
{
	static const uint8_t no_boot_id[16];
	const struct mt_state_header *h = &job->header;

	if (!job->is_last)
		return false;
	if (!header_code && h->pid && h->proc_start &&
	    memcmp(h->boot_id, no_boot_id, sizeof(no_boot_id)))
		return mt_mtk_process_alive(h);
	if (!mt_process_is_running(atoi(mt_path_base(job->file)), 0, no_boot_id))
		return false;
	return header_code || h->end_kind == MT_END_RUNNING;
}

static void read_program(const char *file, const struct mt_state_header *h, char *program,
			 size_t bytes)
{
	char exe[STRING_MAX] = "";

	mt_mtk_read_string(file, h->exe_string, exe, sizeof(exe), NULL);
	snprintf(program, bytes, "%s", mt_path_base(exe));
}

/* Takes ownership of path, also on failure. */
static int add_result(const struct job *job, enum mt_collect_kind kind, char *path, const char *why,
		      struct mt_collection *c)
{
	pid_t pid = kind == MT_RUNNING ? atoi(mt_path_base(job->file)) : job->header.pid;
	int code = add_item(c, kind, pid, path, *job->program ? job->program : "a process", why);

	if (code)
		return code;
	c->item[c->count - 1].start_ns = job->header.mono_start_ns;
	c->item[c->count - 1].is_stray = job->is_stray;
	return 0;
}

static int add_moved(const struct job *job, char *moved, struct mt_collection *c)
{
	int code = add_result(job, MT_COLLECTED, moved, NULL, c);

	if (!code)
		move_series(job, moved, &c->item[c->count - 1]);
	return code;
}

static int collect_file(struct job *job, struct mt_collection *c)
{
	struct mt_err err = {0};
	char *moved = NULL;
	int code = mt_mtk_read_header(job->file, &job->header, &err);
	bool in_use = is_in_use(job, code);

	if (code == -ENODATA && !in_use) { /* the process ended before it wrote anything */
		remove_files(job->file);
		return 0;
	}
	if (!code)
		read_program(job->file, &job->header, job->program, sizeof(job->program));
	if (in_use)
		return add_result(job, MT_RUNNING, strdup(job->shown), NULL, c);
	if (!code && is_too_large(job))
		return add_result(job, MT_LARGE, strdup(job->shown), NULL, c);
	if (!code)
		code = move_file(job, &moved, &err);
	if (!code)
		return add_moved(job, moved, c);
	if (is_expired(job->file)) {
		remove_files(job->file);
		return 0;
	}
	note_end(job);
	return add_result(job, MT_KEPT, strdup(job->shown), err.text, c);
}

/* A state file of a directory. What its header says is read where one pid has several. */
struct entry {
	char *name; /* owned */
	int pid;
	uint64_t proc_start, start_ns; /* 0: not read, or not said yet */
	bool is_last;                  /* its process wrote no later one */
};

struct entries {
	struct entry *item; /* owned */
	size_t count, capacity;
};

static void entries_done(struct entries *e)
{
	for (size_t i = 0; i < e->count; i++)
		free(e->item[i].name);
	free(e->item);
}
MT_AUTO_DEFINE_INPLACE(entries, struct entries, entries_done)

/* A header that is being filled is the latest (0 - 1 is the largest number). */
static int compare_entries(const void *a, const void *b)
{
	const struct entry *x = a, *y = b;

	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns - 1 < y->start_ns - 1 ? -1 : 1;
	return strverscmp(x->name, y->name);
}

static void read_times(const char *dir, struct entry *e)
{
	mt_auto(free) char *file = mt_path_join(dir, e->name);
	struct mt_state_header h;
	int code = file ? mt_mtk_read_header(file, &h, NULL) : -ENOMEM;

	if (!code) {
		e->proc_start = h.proc_start;
		e->start_ns = h.mono_start_ns;
	} else if (code != -ENODATA) { /* damaged: nobody writes it */
		e->start_ns = 1;
	}
}

static bool has_same_pid(const struct entries *e, size_t a, size_t b)
{
	return a < e->count && b < e->count && e->item[a].pid == e->item[b].pid;
}

/* The pid may have been used by two processes one after the other. */
static bool has_same_process(const struct entries *e, size_t a, size_t b)
{
	uint64_t x, y;

	if (!has_same_pid(e, a, b))
		return false;
	x = e->item[a].proc_start;
	y = e->item[b].proc_start;
	return !x || !y || x == y;
}

/* By pid, and of one pid in the order in which they began: numbers of moved files come again. */
static void sort_entries(const char *dir, struct entries *e)
{
	if (!e->count)
		return;
	qsort(e->item, e->count, sizeof(*e->item), compare_entries);
	for (size_t i = 0; i < e->count; i++)
		if (has_same_pid(e, i, i + 1) || (i && has_same_pid(e, i, i - 1)))
			read_times(dir, &e->item[i]);
	qsort(e->item, e->count, sizeof(*e->item), compare_entries);
	for (size_t i = 0; i < e->count; i++)
		e->item[i].is_last = !has_same_process(e, i, i + 1);
}

/* of: only files of this pid; 0: all. 0 or a negative errno value. */
static int list_entries(const char *dir, int of, struct entries *e)
{
	DIR *d = opendir(dir);
	int code = d ? 0 : -errno;

	for (struct dirent *at; d && !code && (at = readdir(d));) {
		struct entry *grown;

		if (!is_state_file(at) || (of && atoi(at->d_name) != of))
			continue;
		grown = mt_alloc_grow(e->item, &e->capacity, e->count + 1, sizeof(*grown));
		if (grown)
			e->item = grown;
		if (grown)
			grown[e->count] =
				(struct entry){.name = strdup(at->d_name), .pid = atoi(at->d_name)};
		code = grown && grown[e->count++].name ? 0 : -ENOMEM;
	}
	if (d)
		closedir(d);
	if (!code)
		sort_entries(dir, e);
	return code;
}

/* Which files of a directory are wanted; NULL: all. */
struct filter {
	const struct mt_collect_launcher *launcher;
	uint8_t boot_id[16];
};

static bool is_wanted(const struct filter *f, const char *file)
{
	struct mt_state_header h;
	struct stat st;

	return !f ||
	       (!lstat(file, &st) && S_ISREG(st.st_mode) && !mt_mtk_read_header(file, &h, NULL) &&
		h.launcher_pid == (uint32_t)f->launcher->pid &&
		!memcmp(h.boot_id, f->boot_id, sizeof(h.boot_id)) &&
		h.mono_start_ns >= f->launcher->since_ns);
}

/* Where to begin: anywhere when not all can be done, but not in the midst of a process's files. */
static size_t choose_first(const struct entries *e, const struct purse *purse)
{
	size_t first;

	if (!purse || !e->count || e->count <= purse->left.steps)
		return 0;
	first = purse->left.first % e->count;
	while (first && has_same_pid(e, first - 1, first))
		first--;
	return first;
}

static int collect_entry(const char *dir, const char *shown, const struct entry *e,
			 const struct filter *filter, const struct job *common,
			 struct mt_collection *collection)
{
	mt_auto(free) char *file = mt_path_join(dir, e->name);
	mt_auto(free) char *shown_file = mt_path_join(shown, e->name);
	struct job job = *common;

	if (!file || !shown_file)
		return -ENOMEM;
	if (job.purse)
		job.purse->has_file = true;
	job.file = file;
	job.shown = shown_file;
	job.is_last = e->is_last;
	return is_wanted(filter, file) ? collect_file(&job, collection) : 0;
}

/* dir: how the files are reached; shown: the directory's name in messages. */
static int collect_names(const char *dir, const char *shown, const struct filter *filter,
			 const struct job *common, struct mt_collection *collection,
			 struct mt_err *err)
{
	mt_auto(entries) struct entries e = {0};
	int code = list_entries(dir, 0, &e);
	size_t first = choose_first(&e, common->purse);

	if (code)
		return code == -ENOMEM
			       ? mt_err_no_memory(err)
			       : mt_err_set_errno(err, code, "cannot read directory '%s'", shown);
	for (size_t i = 0; i < e.count && !code && take_step(common->purse); i++)
		code = collect_entry(dir, shown, &e.item[(first + i) % e.count], filter, common,
				     collection);
	return code ? mt_err_no_memory(err) : 0;
}

int mt_collect_dir(const char *dir, const char *pattern, const struct mt_collect_end *end,
		   struct mt_collection *collection, struct mt_err *err)
{
	struct job common = {.pattern = pattern, .end = end};

	return collect_names(dir, dir, NULL, &common, collection, err);
}

struct strays {
	struct filter filter;
	struct job common;
	struct mt_collection *collection;
	struct mt_err *err;
};

static int collect_strays_in(void *context, const char *path, int fd)
{
	struct strays *s = context;
	size_t before = s->collection->count;
	char dir[64];
	int code;

	snprintf(dir, sizeof(dir), "/proc/self/fd/%d", fd);
	code = collect_names(dir, path, &s->filter, &s->common, s->collection, s->err);
	/* fails while anything is in it; an empty one may be another program's that just starts */
	if (s->collection->count != before)
		(void)!rmdir(path);
	return code == -ENOMEM ? code : 0;
}

int mt_collect_strays(const struct mt_collect_launcher *launcher, const char *pattern,
		      const struct mt_collect_end *end, struct mt_collection *collection,
		      struct mt_err *err)
{
	struct strays s = {
		.filter = {.launcher = launcher},
		.common = {.pattern = pattern, .end = end, .is_stray = true},
		.collection = collection,
		.err = err,
	};
	int code = mt_process_boot_id(s.filter.boot_id);

	return code ? 0 : mt_statedir_each_of(launcher->pid, collect_strays_in, &s);
}

/* ---- while the run goes on ---- */

/*
 * The path that the state of the launcher's own child would get now, where the pattern has one path
 * for many processes; NULL: none.
 */
static char *path_of_program(const struct mt_collect_ended *f, const char *pattern)
{
	mt_auto(entries) struct entries e = {0};
	mt_auto(free) char *file = NULL, *path = NULL;
	char program[STRING_MAX];
	struct mt_state_header h;

	if (mt_pattern_has_pid(pattern) || f->is_stray || atoi(f->name) == f->program ||
	    list_entries(f->dir, f->program, &e) || !e.count)
		return NULL;
	file = mt_path_join(f->dir, e.item[e.count - 1].name);
	if (!file || mt_mtk_read_header(file, &h, NULL))
		return NULL;
	read_program(file, &h, program, sizeof(program));
	path = mt_pattern_expand(pattern, program, h.pid, h.wall_start_ns);
	for (unsigned attempt = 1; path && attempt <= COLLISIONS_MAX; attempt++) {
		char *numbered = mt_pattern_numbered(path, attempt);

		if (!numbered || (access(numbered, F_OK) && errno == ENOENT))
			return numbered;
		free(numbered);
	}
	return NULL;
}

int mt_collect_ended(const struct mt_collect_ended *f, const char *pattern, struct mt_collection *c)
{
	mt_auto(free) char *file = mt_path_join(f->dir, f->name);
	mt_auto(free) char *shown = mt_path_join(f->shown, f->name);
	mt_auto(free) char *avoided = path_of_program(f, pattern);
	struct job job = {
		.file = file,
		.shown = shown,
		.pattern = pattern,
		.avoided = avoided,
		.is_last = !f->is_replaced,
		.is_stray = f->is_stray,
	};
	struct mt_err err = {0};
	char *moved = NULL;
	int code;

	if (!file || !shown)
		return -ENOMEM;
	code = mt_mtk_read_header(file, &job.header, NULL);
	if (is_in_use(&job, code))
		return -EBUSY;
	if (code == -ENODATA) {
		remove_files(file);
		return 0;
	}
	if (code)
		return code;
	read_program(file, &job.header, job.program, sizeof(job.program));
	code = move_file(&job, &moved, &err);
	return code ? code : add_moved(&job, moved, c);
}

static int compare_items(const void *a, const void *b)
{
	const struct mt_collect_item *x = a, *y = b;

	if (x->is_stray != y->is_stray)
		return x->is_stray ? 1 : -1;
	if (x->pid != y->pid)
		return x->pid < y->pid ? -1 : 1;
	if (x->start_ns != y->start_ns)
		return x->start_ns < y->start_ns ? -1 : 1;
	return strverscmp(x->path, y->path);
}

void mt_collection_sort(struct mt_collection *c)
{
	if (c->count)
		qsort(c->item, c->count, sizeof(*c->item), compare_items);
}

/* ---- of launchers that are gone ---- */

struct abandoned {
	struct purse *purse; /* NULL: no limit */
	struct mt_collection *collection;
};

/* Snapshots whose state file is gone, since they could not be moved with it. */
static void reap_series(const char *dir)
{
	DIR *d = opendir(dir);

	for (struct dirent *e; d && (e = readdir(d));) {
		mt_auto(free) char *path = mt_path_join(dir, e->d_name);
		size_t len = strlen(e->d_name);

		if (path && len > 4 && !strcmp(e->d_name + len - 4, ".mts") && is_expired(path)) {
			char *state = path + strlen(path) - 1;

			*state = 'k';
			if (access(path, F_OK) && errno == ENOENT) {
				*state = 's';
				unlink(path);
			}
		}
	}
	if (d)
		closedir(d);
}

static int collect_abandoned(void *context, const char *path)
{
	mt_auto(mt_statedir) struct mt_statedir dir = {.lock_fd = -1};
	mt_auto(free) char *pattern = NULL;
	struct abandoned *a = context;
	struct job common = {.purse = a->purse};

	if (!take_step(a->purse))
		return 1;
	if (mt_statedir_adopt(path, &dir, &pattern))
		return 0;
	common.pattern = pattern;
	collect_names(path, path, NULL, &common, a->collection, NULL);
	reap_series(path);
	mt_statedir_remove(&dir);
	return 0;
}

bool mt_collect_abandoned(const struct mt_collect_budget *budget, struct mt_collection *collection)
{
	struct purse purse = {0};
	struct abandoned a = {.purse = budget ? &purse : NULL, .collection = collection};

	if (budget)
		purse.left = *budget;
	mt_statedir_each(purse.left.first, collect_abandoned, &a);
	return !purse.is_spent;
}
