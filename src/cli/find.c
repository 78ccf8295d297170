/* SPDX-License-Identifier: MIT */
/*
 * A process that is tracked has its state file mapped, wherever that file lies, so that its
 * mappings tell it; files whose process is gone are found in the directories where they are made.
 */

#include "cli/find.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/file.h"
#include "base/path.h"
#include "formats/mtk_read.h"
#include "record/statedir.h"
#include "target/mapped_files.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

enum { STRING_MAX = 4096 };

void mt_live_states_done(struct mt_live_states *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->count; i++) {
		free(s->item[i].path);
		free(s->item[i].program);
		free(s->item[i].called);
	}
	free(s->item);
	*s = (struct mt_live_states){0};
}

static int add_state(struct mt_live_states *s, const char *path)
{
	struct mt_live_state state = {0}, *item;
	char exe[STRING_MAX] = "", command[STRING_MAX] = "";
	int code;

	for (size_t i = 0; i < s->count; i++)
		if (!strcmp(s->item[i].path, path))
			return 0;
	code = mt_mtk_read_header(path, &state.header, NULL);
	if (code) {
		/* not yet begun, or gone meanwhile */
		s->unreadable += code != -ENODATA && code != -ENOENT;
		return 0;
	}
	mt_mtk_read_string(path, state.header.exe_string, exe, sizeof(exe), NULL);
	mt_mtk_read_string(path, state.header.cmdline_string, command, sizeof(command), NULL);
	command[strcspn(command, " ")] = 0;
	item = mt_alloc_grow(s->item, &s->capacity, s->count + 1, sizeof(*item));
	if (!item)
		return -ENOMEM;
	s->item = item;
	state.path = strdup(path);
	state.program = strdup(mt_path_base(exe));
	state.called = strdup(mt_path_base(command));
	if (!state.path || !state.program || !state.called) {
		free(state.path);
		free(state.program);
		free(state.called);
		return -ENOMEM;
	}
	state.is_running = mt_mtk_process_alive(&state.header);
	s->item[s->count++] = state;
	return 0;
}

static bool is_state_name(const char *name)
{
	size_t len = strlen(name);

	return len > 4 && !strcmp(name + len - 4, ".mtk");
}

static int add_directory(void *context, const char *path)
{
	DIR *d = opendir(path);
	int code = 0;

	for (struct dirent *e; d && !code && (e = readdir(d));) {
		mt_auto(free) char *file =
			is_state_name(e->d_name) ? mt_path_join(path, e->d_name) : NULL;

		if (file)
			code = add_state(context, file);
	}
	if (d)
		closedir(d);
	return code;
}

/* A directory of finished files (MEMTRACK_DIR): only those whose process still runs are live. */
static int add_running_in(struct mt_live_states *s, const char *path)
{
	mt_auto(mt_live_states) struct mt_live_states all = {0};
	int code = add_directory(&all, path);

	for (size_t i = 0; i < all.count && !code; i++)
		if (all.item[i].is_running)
			code = add_state(s, all.item[i].path);
	s->unreadable += all.unreadable;
	return code;
}

static int add_mapped_state(void *context, const char *name, uint64_t inode)
{
	return is_state_name(name) ? add_state(context, name) : 0;
}

static int add_mapped(struct mt_live_states *s, pid_t pid)
{
	int code = mt_mapped_files(pid, MT_MAPPED_BEST, add_mapped_state, s);

	return code == -ENOMEM ? code : 0; /* others may not be looked at, or are gone */
}

static int compare_states(const void *a, const void *b)
{
	const struct mt_live_state *x = a, *y = b;

	if (x->header.pid != y->header.pid)
		return x->header.pid < y->header.pid ? -1 : 1;
	if (x->header.wall_start_ns != y->header.wall_start_ns)
		return x->header.wall_start_ns < y->header.wall_start_ns ? -1 : 1;
	return strcmp(x->path, y->path);
}

int mt_live_states_find(struct mt_live_states *ret_states)
{
	struct mt_live_states s = {0};
	const char *dir = getenv("MEMTRACK_DIR");
	DIR *proc = opendir("/proc");
	int code = mt_statedir_each(0, add_directory, &s);

	if (!code && dir && *dir)
		code = add_running_in(&s, dir);
	for (struct dirent *e; proc && !code && (e = readdir(proc));)
		if (isdigit((unsigned char)e->d_name[0]))
			code = add_mapped(&s, (pid_t)atoi(e->d_name));
	if (proc)
		closedir(proc);
	if (code) {
		mt_live_states_done(&s);
		return -ENOMEM;
	}
	if (s.count)
		qsort(s.item, s.count, sizeof(*s.item), compare_states);
	*ret_states = s;
	return 0;
}

int mt_live_state_of(pid_t pid, char **ret_path, struct mt_err *err)
{
	mt_auto(mt_live_states) struct mt_live_states s = {0};
	const struct mt_live_state *found = NULL;
	int code = add_mapped(&s, pid);

	if (!code) /* where the file has another name for the process */
		code = mt_statedir_each(0, add_directory, &s);
	for (size_t i = 0; i < s.count && !code; i++) {
		const struct mt_live_state *state = &s.item[i];

		if (state->is_running && state->header.pid == pid &&
		    (!found || state->header.wall_start_ns > found->header.wall_start_ns))
			found = state;
	}
	*ret_path = found ? strdup(found->path) : NULL;
	return code || (found && !*ret_path) ? mt_err_no_memory(err) : 0;
}

static bool is_number(const char *text)
{
	return *text && strspn(text, "0123456789") == strlen(text);
}

static bool is_match(const struct mt_live_state *s, const char *operand)
{
	if (!s->is_running)
		return false;
	if (!strncmp(operand, "name:", 5))
		return !strcmp(s->program, operand + 5) || !strcmp(s->called, operand + 5);
	return s->header.pid == atoi(operand);
}

/* The only match; of several files of one process (exec) the newest, which comes last, counts. */
static char *choose(const struct mt_live_states *s, const char *operand, struct mt_err *err)
{
	mt_auto(mt_buf) struct mt_buf list = {0};
	const struct mt_live_state *found = NULL;
	unsigned processes = 0;

	for (size_t i = 0; i < s->count; i++) {
		if (!is_match(&s->item[i], operand))
			continue;
		if (!found || found->header.pid != s->item[i].header.pid) {
			mt_buf_printf(&list, "%s%d", processes ? ", " : "", s->item[i].header.pid);
			processes++;
		}
		found = &s->item[i];
	}
	if (!processes) {
		mt_err_set(err, -ESRCH,
			   "no tracked process is running for '%s'; 'memtrack ps' lists those that "
			   "are, and moves the states of those that ended to files for 'memtrack "
			   "report FILE'",
			   operand);
		return NULL;
	}
	if (processes > 1) {
		mt_err_set(err, -EINVAL,
			   "'%s' matches %u tracked processes; name one by its pid: %s", operand,
			   processes, mt_buf_text(&list));
		return NULL;
	}
	return strdup(found->path);
}

char *mt_find_file(const char *operand, struct mt_err *err)
{
	mt_auto(mt_live_states) struct mt_live_states states = {0};

	if (!access(operand, F_OK) || (!is_number(operand) && strncmp(operand, "name:", 5)))
		return strdup(operand);
	if (mt_live_states_find(&states)) {
		mt_err_no_memory(err);
		return NULL;
	}
	return choose(&states, operand, err);
}
