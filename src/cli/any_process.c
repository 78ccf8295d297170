/* SPDX-License-Identifier: MIT */
/* Finding processes in /proc. */

#include "cli/any_process.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/path.h"
#include "target/process.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

pid_t *mt_any_process_list(void)
{
	DIR *d = opendir("/proc");
	size_t count = 0, capacity = 0;
	pid_t *list = mt_alloc_grow(NULL, &capacity, 1, sizeof(*list));

	for (struct dirent *e; list && d && (e = readdir(d));) {
		pid_t *grown;

		if (!isdigit((unsigned char)e->d_name[0]))
			continue;
		grown = mt_alloc_grow(list, &capacity, count + 2, sizeof(*list));
		if (!grown) {
			free(list);
			list = NULL;
			break;
		}
		list = grown;
		list[count++] = (pid_t)atoi(e->d_name);
	}
	if (d)
		closedir(d);
	if (!list)
		return NULL;
	qsort(list, count, sizeof(*list), mt_process_compare_pids);
	list[count] = 0;
	return list;
}

const char *mt_any_process_name(pid_t pid, char *text, size_t bytes)
{
	static const char deleted[] = " (deleted)";
	char path[64], exe[4096];
	struct mt_process p;
	ssize_t len;

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	len = readlink(path, exe, sizeof(exe) - 1);
	if (len > 0) {
		size_t cut = sizeof(deleted) - 1;

		exe[len] = 0;
		if ((size_t)len > cut && !strcmp(exe + len - cut, deleted))
			exe[(size_t)len - cut] = 0;
		snprintf(text, bytes, "%s", mt_path_base(exe));
	} else {
		snprintf(text, bytes, "%s", mt_process_read(pid, &p) ? "?" : p.name);
	}
	return text;
}

static bool is_called(pid_t pid, const char *name)
{
	char text[256];
	struct mt_process p;

	if (mt_process_read(pid, &p) || p.state == 'Z' || p.state == 'X')
		return false;
	return !strcmp(p.name, name) || !strcmp(mt_any_process_name(pid, text, sizeof(text)), name);
}

static int find_by_name(const char *name, pid_t *ret_pid, struct mt_err *err)
{
	mt_auto(free) pid_t *list = mt_any_process_list();
	mt_auto(mt_buf) struct mt_buf found = {0};
	unsigned count = 0;

	if (!list)
		return mt_err_no_memory(err);
	for (const pid_t *pid = list; *pid; pid++) {
		if (*pid == getpid() || !is_called(*pid, name))
			continue;
		mt_buf_printf(&found, "%s%d", count++ ? ", " : "", (int)*pid);
		*ret_pid = *pid;
	}
	if (!count)
		return mt_err_set(err, -ESRCH, "no process named '%s' is running", name);
	if (count > 1)
		return mt_err_set(err, -EINVAL, "'%s' names %u processes; name one by its pid: %s",
				  name, count, mt_buf_text(&found));
	return 1;
}

int mt_any_process(const char *operand, pid_t *ret_pid, struct mt_err *err)
{
	char *end;
	long number;

	if (!access(operand, F_OK))
		return 0;
	if (!strncmp(operand, "name:", 5))
		return find_by_name(operand + 5, ret_pid, err);
	if (!*operand || strspn(operand, "0123456789") != strlen(operand))
		return 0;
	errno = 0;
	number = strtol(operand, &end, 10);
	if (errno || number <= 0 || number > INT32_MAX)
		return mt_err_set(err, -ESRCH, "there is no process %s", operand);
	*ret_pid = (pid_t)number;
	return 1;
}
