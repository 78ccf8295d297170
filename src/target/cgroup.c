/* SPDX-License-Identifier: MIT */
/*
 * Control groups: version 2 has memory.current and memory.stat, version 1 memory.usage_in_bytes and
 * a memory.stat with other names. A folder with copies of these files will do.
 */

#include "target/machine.h"

#include "base/alloc.h"
#include "base/file.h"
#include "base/lines.h"
#include "base/path.h"
#include "core/cc.h"
#include "target/machine_parts.h"
#include "target/memory.h"
#include "target/process.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEXT_MAX = 1 << 24, DEPTH_MAX = 32 };

static char *read_text(const char *folder, const char *name)
{
	mt_auto(free) char *path = mt_path_join(folder, name);

	return path ? mt_file_text(path, TEXT_MAX) : NULL;
}

/* A file with one number; "max" and what is not there are not known. */
static uint64_t read_number(const char *folder, const char *name)
{
	mt_auto(free) char *text = read_text(folder, name);
	char *end;
	uint64_t number;

	if (!text)
		return MT_MEMORY_UNKNOWN;
	number = strtoull(text, &end, 10);
	return end == text ? MT_MEMORY_UNKNOWN : number;
}

/* The number of a line "KEY NUMBER". */
static uint64_t number_of(const char *text, const char *key)
{
	size_t len = strlen(key);

	for (const char *line = text; line && *line; line = mt_line_behind(line)) {
		if (!strncmp(line, key, len) && line[len] == ' ')
			return strtoull(line + len + 1, NULL, 10);
	}
	return MT_MEMORY_UNKNOWN;
}

static bool has_file(const char *folder, const char *name)
{
	mt_auto(free) char *path = mt_path_join(folder, name);

	return path && !access(path, F_OK);
}

static int version_of(const char *folder)
{
	if (has_file(folder, "memory.current"))
		return 2;
	return has_file(folder, "memory.usage_in_bytes") ? 1 : 0;
}

/* ---- parts ---- */

/* Version 1 has no limit at the largest number of pages. */
static uint64_t limit_of(uint64_t bytes)
{
	return bytes >= 1ull << 62 ? MT_MEMORY_UNKNOWN : bytes;
}

static void add_limits(struct mt_cgroup *g, const char *peak, const char *limit, const char *swap)
{
	struct mt_whole *w = &g->memory;

	mt_whole_add_fact(w, "peak_bytes", "highest", "since the group was made, or reset",
			  read_number(g->folder, peak));
	mt_whole_add_fact(w, "limit_bytes", "limit", "what is beyond is reclaimed, or killed for",
			  limit_of(read_number(g->folder, limit)));
	mt_whole_add_fact(w, "swap_bytes", "swap", "", read_number(g->folder, swap));
}

/* What processes use; files: shared memory is among them. */
static void add_uses(struct mt_whole *w, uint64_t anon, uint64_t files, uint64_t shmem)
{
	mt_whole_add_part(w, "anon_bytes", "anonymous", "heaps and stacks of processes", anon);
	mt_whole_add_part(w, "page_cache_bytes", "page cache",
			  "files; given back when memory is needed", mt_whole_less(files, shmem));
	mt_whole_add_part(w, "shmem_bytes", "shared memory",
			  "tmpfs, memory files, shared anonymous memory", shmem);
}

static void add_kernel(struct mt_whole *w, const char *stat)
{
	mt_whole_add_part(w, "slab_reclaimable_bytes", "reclaimable slab",
			  "caches of the kernel: names, inodes",
			  number_of(stat, "slab_reclaimable"));
	mt_whole_add_part(w, "slab_unreclaimable_bytes", "other slab", "objects of the kernel",
			  number_of(stat, "slab_unreclaimable"));
	mt_whole_add_part(w, "kernel_stack_bytes", "kernel stacks", "of the group's threads",
			  number_of(stat, "kernel_stack"));
	mt_whole_add_part(w, "page_tables_bytes", "page tables", "of the group's processes",
			  number_of(stat, "pagetables"));
	mt_whole_add_part(w, "percpu_bytes", "per CPU", "memory of the kernel for each CPU",
			  number_of(stat, "percpu"));
	mt_whole_add_part(w, "socket_bytes", "sockets", "buffers of the network",
			  number_of(stat, "sock"));
}

static void read_v2(struct mt_cgroup *g)
{
	mt_auto(free) char *stat = read_text(g->folder, "memory.stat");
	mt_auto(free) char *events = read_text(g->folder, "memory.events");
	struct mt_whole *w = &g->memory;

	w->bytes = read_number(g->folder, "memory.current");
	add_uses(w, number_of(stat, "anon"), number_of(stat, "file"), number_of(stat, "shmem"));
	add_kernel(w, stat);
	mt_whole_finish(w);
	add_limits(g, "memory.peak", "memory.max", "memory.swap.current");
	mt_whole_add_fact(w, "dirty_bytes", "dirty", "of the page cache: to be written",
			  number_of(stat, "file_dirty"));
	mt_whole_add_fact(w, "oom_kills", "killed", "processes, for want of memory",
			  number_of(events, "oom_kill"));
}

static void read_v1(struct mt_cgroup *g)
{
	mt_auto(free) char *stat = read_text(g->folder, "memory.stat");
	mt_auto(free) char *control = read_text(g->folder, "memory.oom_control");
	struct mt_whole *w = &g->memory;
	uint64_t kernel = read_number(g->folder, "memory.kmem.usage_in_bytes");

	w->bytes = read_number(g->folder, "memory.usage_in_bytes");
	add_uses(w, number_of(stat, "total_rss"), number_of(stat, "total_cache"),
		 number_of(stat, "total_shmem"));
	mt_whole_finish(w);
	/* of the topmost group the kernel's memory is not in the usage */
	if (kernel != MT_MEMORY_UNKNOWN && w->rest_bytes >= 0 &&
	    kernel <= (uint64_t)w->rest_bytes) {
		mt_whole_add_part(w, "kernel_bytes", "kernel", "slab, stacks, page tables", kernel);
		mt_whole_finish(w);
	} else {
		mt_whole_add_fact(w, "kernel_bytes", "kernel", "beside the others, not in TOTAL",
				  kernel);
	}
	add_limits(g, "memory.max_usage_in_bytes", "memory.limit_in_bytes", "no such file");
	mt_whole_add_fact(w, "swap_bytes", "swap", "", number_of(stat, "total_swap"));
	mt_whole_add_fact(w, "dirty_bytes", "dirty", "of the page cache: to be written",
			  number_of(stat, "total_dirty"));
	mt_whole_add_fact(w, "oom_kills", "killed", "processes, for want of memory",
			  number_of(control, "oom_kill"));
}

/* ---- processes ---- */

static int add_pids(struct mt_cgroup *g, size_t *capacity, const char *folder)
{
	mt_auto(free) char *text = read_text(folder, "cgroup.procs");
	char *at = text, *end;

	for (; at && *at; at = end) {
		long pid = strtol(at, &end, 10);
		pid_t *grown;

		if (end == at)
			break;
		if (pid <= 0) /* of another pid namespace */
			continue;
		grown = mt_alloc_grow(g->pid, capacity, g->pids + 2, sizeof(*grown));
		if (!grown)
			return -ENOMEM;
		g->pid = grown;
		g->pid[g->pids++] = (pid_t)pid;
		g->pid[g->pids] = 0;
	}
	return 0;
}

static int walk(struct mt_cgroup *g, size_t *capacity, const char *folder, int depth)
{
	int code = add_pids(g, capacity, folder);
	DIR *d = depth < DEPTH_MAX ? opendir(folder) : NULL;

	for (struct dirent *e; d && !code && (e = readdir(d));) {
		mt_auto(free) char *below = NULL;

		if (e->d_type != DT_DIR || e->d_name[0] == '.')
			continue;
		below = mt_path_join(folder, e->d_name);
		code = below ? walk(g, capacity, below, depth + 1) : -ENOMEM;
	}
	if (d)
		closedir(d);
	return code;
}

/* ---- where it is ---- */

static int find(const char *path, struct mt_cgroup *g, struct mt_err *err)
{
	static const char *const roots[] = {"", "/sys/fs/cgroup", "/sys/fs/cgroup/memory",
					    "/sys/fs/cgroup/unified"};
	struct stat st;

	for (size_t i = 0; i < MT_ARRAY_LEN(roots); i++) {
		int len = snprintf(g->folder, sizeof(g->folder), "%s%s%s", roots[i],
				   i && *path != '/' ? "/" : "", path);

		if (len >= (int)sizeof(g->folder))
			return mt_err_set(err, -ENAMETOOLONG, "'%.100s...' is too long a path",
					  path);
		g->version = version_of(g->folder);
		if (g->version)
			return 0;
		/* "/" is a folder, and the topmost group */
		if (!i && *path != '/' && !stat(path, &st) && S_ISDIR(st.st_mode))
			return mt_err_set(
				err, -ENOENT,
				"'%s' is no control group with the memory controller: it has "
				"neither memory.current nor memory.usage_in_bytes",
				path);
	}
	return mt_err_set(err, -ENOENT,
			  "there is no control group '%s' with the memory controller, neither as a "
			  "folder nor below /sys/fs/cgroup",
			  path);
}

int mt_cgroup_read(const char *path, struct mt_cgroup *ret_group, struct mt_err *err)
{
	struct mt_cgroup *g = ret_group;
	size_t capacity = 0;
	int code;

	*g = (struct mt_cgroup){.version = 0};
	code = find(path, g, err);
	if (code)
		return code;
	if (g->version == 2)
		read_v2(g);
	else
		read_v1(g);
	if (g->memory.bytes == MT_MEMORY_UNKNOWN)
		return mt_err_set(err, -EACCES, "cannot read the memory of '%s'", g->folder);
	if (walk(g, &capacity, g->folder, 0)) {
		mt_cgroup_done(g);
		return mt_err_no_memory(err);
	}
	if (g->pids)
		qsort(g->pid, g->pids, sizeof(*g->pid), mt_process_compare_pids);
	return 0;
}

/* Whether a list "a,b,c" of len bytes has the controller. */
static bool has_memory(const char *list, size_t len)
{
	for (const char *at = list; at < list + len; at += strcspn(at, ",:") + 1)
		if (!strncmp(at, "memory", 6) && (at[6] == ',' || at[6] == ':'))
			return true;
	return false;
}

/* "4:cpu,memory:/path" of version 1, "0::/path" of version 2. */
bool mt_cgroup_parse_path(const char *text, char *path, size_t bytes)
{
	bool is_found = false;

	for (const char *line = text; *line; line = mt_line_behind(line)) {
		const char *list = line + strcspn(line, ":\n") + 1, *name;
		size_t len;
		bool is_v1;

		if (list[-1] != ':')
			continue;
		name = list + strcspn(list, ":\n");
		if (*name != ':' || name[1] != '/')
			continue;
		is_v1 = has_memory(list, (size_t)(name - list));
		len = strcspn(name + 1, "\n");
		if ((!is_v1 && (name != list || is_found)) || len >= bytes)
			continue;
		memcpy(path, name + 1, len);
		path[len] = 0;
		is_found = true;
		if (is_v1)
			break;
	}
	return is_found;
}

/* The group's memory without what is given back first. */
static uint64_t used_of(const struct mt_cgroup *g)
{
	mt_auto(free) char *stat = read_text(g->folder, "memory.stat");
	bool is_v2 = g->version == 2;
	uint64_t all = read_number(g->folder, is_v2 ? "memory.current" : "memory.usage_in_bytes");
	uint64_t cache = mt_whole_less(number_of(stat, is_v2 ? "file" : "total_cache"),
				       number_of(stat, is_v2 ? "shmem" : "total_shmem"));

	return mt_whole_less(all, cache == MT_MEMORY_UNKNOWN ? 0 : cache);
}

static uint64_t room_of(const struct mt_cgroup *g)
{
	uint64_t used = used_of(g);
	uint64_t limit = limit_of(
		read_number(g->folder, g->version == 2 ? "memory.max" : "memory.limit_in_bytes"));

	if (limit == MT_MEMORY_UNKNOWN || used == MT_MEMORY_UNKNOWN)
		return UINT64_MAX;
	return limit > used ? limit - used : 0;
}

uint64_t mt_cgroup_room(pid_t pid)
{
	mt_auto(free) char *text = NULL;
	uint64_t room = UINT64_MAX;
	char path[4096];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)pid);
	text = mt_file_text(path, TEXT_MAX);
	if (!text || !mt_cgroup_parse_path(text, path, sizeof(path)))
		return room;
	for (; path[0] && path[1]; *strrchr(path, '/') = 0) {
		struct mt_cgroup g = {.version = 0};

		if (!find(path, &g, NULL))
			room = MT_MIN(room, room_of(&g));
	}
	return room;
}

void mt_cgroup_done(struct mt_cgroup *g)
{
	if (!g)
		return;
	free(g->pid);
	g->pid = NULL;
	g->pids = 0;
}
