/* SPDX-License-Identifier: MIT */
/* The state files of a run: taken while it goes on, and told at its end. */

#include "cli/run_files.h"

#include "base/path.h"
#include "base/units.h"
#include "cli/commands.h"
#include "cli/run_snapshots.h"
#include "formats/mtk_read.h"
#include "wire/state.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

void mt_run_files_started(void *context, pid_t pid)
{
	struct mt_run_files *f = context;

	__atomic_store_n(&f->program, pid, __ATOMIC_RELEASE);
}

/* Whether a copy of the memory of its process is still being searched: the result goes into it. */
static bool is_searched(const struct mt_companion_file *file)
{
	struct mt_state_header h;

	return !mt_mtk_read_header_fd(file->fd, file->name, &h, NULL) && h.look_asked &&
	       h.look_done == h.look_asked && h.look_result == MT_LOOK_NONE;
}

int mt_run_files_take(void *context, const struct mt_companion_file *file, bool is_replaced)
{
	struct mt_run_files *f = context;
	pid_t program = __atomic_load_n(&f->program, __ATOMIC_ACQUIRE);
	mt_auto(free) char *shown = mt_path_dir(file->path);
	char dir[64];
	struct mt_collect_ended ended = {
		.dir = file->is_stray ? dir : shown,
		.shown = shown,
		.name = file->name,
		.is_replaced = is_replaced,
		.is_stray = file->is_stray,
		.program = program,
	};
	int code;

	if (!program)
		return -EBUSY;
	if (file->pid == program && !is_replaced)
		return MT_COMPANION_LEFT;
	if (!shown)
		return -ENOMEM;
	if (is_searched(file))
		return -EBUSY;
	/* its owner may put another in the place of that path at any time */
	snprintf(dir, sizeof(dir), "/proc/self/fd/%d", file->dir_fd);
	code = mt_collect_ended(&ended, f->pattern, &f->all);
	return code ? code : MT_COMPANION_TAKEN;
}

static void tell_file(const struct mt_collect_item *f, bool is_quiet, bool with_paths)
{
	if (f->kind == MT_RUNNING && !is_quiet)
		mt_complain("%s (pid %d) is still running; 'memtrack report %d' shows it, "
			    "'memtrack ps' collects its state once it has ended",
			    f->program, (int)f->pid, (int)f->pid);
	else if (f->kind == MT_COLLECTED && with_paths)
		mt_complain("wrote '%s'", f->path);
	mt_run_snapshots_tell_file(f, with_paths && !is_quiet);
}

/* Errors: also told when quiet. Of many the first is told: most often all are for one reason. */
static size_t tell_kept(const struct mt_collection *all)
{
	const struct mt_collect_item *last = NULL;
	size_t count = 0;

	for (size_t i = 0; i < all->count; i++) {
		const struct mt_collect_item *f = &all->item[i];

		if (f->kind != MT_KEPT)
			continue;
		last = f;
		if (!count++)
			mt_complain("%s: the state of %s (pid %d) stays in '%s' until 'memtrack "
				    "ps' can move it",
				    f->why, f->program, (int)f->pid, f->path);
	}
	if (count == 2)
		mt_complain("so does that of %s (pid %d), in '%s'", last->program, (int)last->pid,
			    last->path);
	else if (count > 2)
		mt_complain("so do %zu more states, the last one in '%s'", count - 1, last->path);
	return count;
}

bool mt_run_files_tell(const struct mt_collection *all, bool is_quiet, bool with_paths)
{
	for (size_t i = 0; i < all->count; i++)
		tell_file(&all->item[i], is_quiet, with_paths);
	return !tell_kept(all);
}

void mt_run_files_tell_nothing(void)
{
	enum { NEED_BYTES = 1 << 20 };
	char size[MT_UNITS_TEXT_MAX];
	struct rlimit limit;

	if (!getrlimit(RLIMIT_FSIZE, &limit) && limit.rlim_cur < NEED_BYTES)
		mt_complain("nothing was recorded: files may have %s at most (ulimit -f), a state "
			    "file needs about 1 MiB",
			    mt_units_size(limit.rlim_cur, size));
	else
		mt_complain("nothing was recorded: the program ended or became another program "
			    "before the tracker was loaded");
}

void mt_run_files_tell_others(const struct mt_collection *others, bool is_all_collected,
			      bool is_verbose)
{
	size_t count = 0;

	for (size_t i = 0; i < others->count; i++) {
		const struct mt_collect_item *f = &others->item[i];

		if (f->kind == MT_LARGE && !count++)
			mt_complain("the state of %s (pid %d), which ended before, lies in '%s'; "
				    "'memtrack ps' moves it or says why not",
				    f->program, (int)f->pid, f->path);
	}
	if (count > 1)
		mt_complain("the same for %zu more %s", count - 1, count == 2 ? "state" : "states");
	if (!is_all_collected && is_verbose)
		mt_complain("more directories of states lie around than a run looks at; 'memtrack "
			    "ps' looks at all");
}
