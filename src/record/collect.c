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

/* The first free name of the pattern, reserved by an empty file. Heap; NULL with *err. */
static char *reserve_output(const char *path, bool has_recording, struct mt_err *err)
{
	for (unsigned attempt = 1; attempt <= COLLISIONS_MAX; attempt++) {
		char *numbered = mt_pattern_numbered(path, attempt);
		int code = !numbered       ? -ENOMEM
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
	struct mt_state_header header;
	bool is_last;
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
	return reserve_output(path, mt_recording_is_there(&job->header), err);
}

/* Writes the finished state and recording at the reserved places. 0 or a negative errno value. */
static int write_files(const struct job *job, const char *path, const char *recording,
		       struct mt_err *err)
{
	struct mt_mtk_finish finish = find_end(&job->header, job->is_last, job->end);
	mt_auto(free) char *recorded = NULL;
	int code = 0;

	calibrate(&job->header, job->is_last && job->end && job->end->pid == job->header.pid,
		  &finish);
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

static int collect_file(struct job *job, struct mt_collection *c)
{
	struct mt_err err = {0};
	char exe[STRING_MAX] = "", *moved = NULL;
	int code = mt_mtk_read_header(job->file, &job->header, &err);
	bool in_use = is_in_use(job, code);

	if (code == -ENODATA && !in_use) { /* the process ended before it wrote anything */
		remove_files(job->file);
		return 0;
	}
	if (!code) {
		mt_mtk_read_string(job->file, job->header.exe_string, exe, sizeof(exe), NULL);
		snprintf(job->program, sizeof(job->program), "%s", mt_path_base(exe));
	}
	if (in_use)
		return add_item(c, MT_RUNNING, atoi(mt_path_base(job->file)), strdup(job->shown),
				*job->program ? job->program : "a process", NULL);
	if (!code && is_too_large(job))
		return add_item(c, MT_LARGE, job->header.pid, strdup(job->shown), job->program,
				NULL);
	if (!code)
		code = move_file(job, &moved, &err);
	if (!code) {
		code = add_item(c, MT_COLLECTED, job->header.pid, moved, job->program, NULL);
		if (!code)
			move_series(job, moved, &c->item[c->count - 1]);
		return code;
	}
	if (is_expired(job->file)) {
		remove_files(job->file);
		return 0;
	}
	return add_item(c, MT_KEPT, job->header.pid, strdup(job->shown), job->program, err.text);
}

/* Same pid in front of the first dot. */
static bool is_same_process(const char *a, const char *b)
{
	return atoi(a) == atoi(b);
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
static int choose_first(struct dirent *const *names, int count, const struct purse *purse)
{
	int first;

	if (!purse || count <= 0 || (uint32_t)count <= purse->left.steps)
		return 0;
	first = (int)(purse->left.first % (size_t)count);
	while (first && is_same_process(names[first - 1]->d_name, names[first]->d_name))
		first--;
	return first;
}

static int collect_name(const char *dir, const char *shown, const char *name, const char *next,
			const struct filter *filter, const struct job *common,
			struct mt_collection *collection)
{
	mt_auto(free) char *file = mt_path_join(dir, name);
	mt_auto(free) char *shown_file = mt_path_join(shown, name);
	struct job job = *common;

	if (!file || !shown_file)
		return -ENOMEM;
	if (job.purse)
		job.purse->has_file = true;
	job.file = file;
	job.shown = shown_file;
	job.is_last = !next || !is_same_process(name, next);
	return is_wanted(filter, file) ? collect_file(&job, collection) : 0;
}

/* dir: how the files are reached; shown: the directory's name in messages. */
static int collect_names(const char *dir, const char *shown, const struct filter *filter,
			 const struct job *common, struct mt_collection *collection,
			 struct mt_err *err)
{
	struct dirent **names = NULL;
	int count = scandir(dir, &names, is_state_file, versionsort);
	int code = 0, first = choose_first(names, count, common->purse);

	if (count < 0)
		return mt_err_set_errno(err, errno, "cannot read directory '%s'", shown);
	for (int i = 0; i < count && !code && take_step(common->purse); i++) {
		int at = (first + i) % count;
		const char *next = at + 1 < count ? names[at + 1]->d_name : NULL;

		code = collect_name(dir, shown, names[at]->d_name, next, filter, common,
				    collection);
	}
	for (int i = 0; i < count; i++)
		free(names[i]);
	free(names);
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
		.common = {.pattern = pattern, .end = end},
		.collection = collection,
		.err = err,
	};
	int code = mt_process_boot_id(s.filter.boot_id);

	return code ? 0 : mt_statedir_each_of(launcher->pid, collect_strays_in, &s);
}

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
