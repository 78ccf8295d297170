/* SPDX-License-Identifier: MIT */
/* What the kernel limits: the control group, resource limits, the number of mappings. */

#include "cli/triage_parts.h"

#include "base/file.h"
#include "target/descriptors.h"
#include "target/machine.h"
#include "target/memory.h"

#include <stdio.h>
#include <string.h>

enum { TEXT_MAX = 1 << 20 };

static void set(struct mt_triage_facts *f, const char *name, bool is_count, uint64_t now,
		uint64_t limit)
{
	struct mt_triage_limit *l = f->limit;

	if (limit == MT_MEMORY_UNKNOWN || now == MT_MEMORY_UNKNOWN)
		return;
	while (l < f->limit + f->limits && strcmp(l->name, name) != 0)
		l++;
	if (l == f->limit + MT_TRIAGE_LIMITS_MAX)
		return;
	if (l == f->limit + f->limits) {
		f->limits++;
		l->before = now;
		snprintf(l->name, sizeof(l->name), "%s", name);
	}
	l->is_count = is_count;
	l->now = now;
	l->limit = limit;
}

static void read_process(struct mt_triage_facts *f)
{
	mt_auto(free) char *text = NULL;
	mt_auto(free) char *most = mt_file_text("/proc/sys/vm/max_map_count", TEXT_MAX);
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/limits", (int)f->pid);
	text = mt_file_text(path, TEXT_MAX);
	if (text)
		set(f, "address space (ulimit -v)", false, f->address_bytes,
		    mt_limits_parse(text, "Max address space"));
	if (text && f->descriptors == MT_TRIAGE_DONE)
		set(f, "open descriptors (ulimit -n)", true, f->descriptors_now,
		    mt_limits_parse(text, "Max open files"));
	if (most && !f->is_refused)
		set(f, "mappings (vm.max_map_count)", true,
		    mt_triage_mappings(f, /* is_before */ false), strtoull(most, NULL, 10));
}

/* ---- the control group ---- */

/* What is used without the page cache, which is given back before the limit counts. */
static uint64_t used_of(const struct mt_whole *w)
{
	for (size_t i = 0; i < w->parts; i++)
		if (!strcmp(w->part[i].key, "page_cache_bytes") && w->part[i].bytes <= w->bytes)
			return w->bytes - w->part[i].bytes;
	return w->bytes;
}

/* Takes the group's memory and limit; false: it has none. */
static bool take_group(struct mt_triage_facts *f, const char *path, bool is_first)
{
	mt_auto(mt_cgroup) struct mt_cgroup g = {.version = 0};
	char name[MT_TRIAGE_NAME_MAX];
	uint64_t limit, killed;

	if (mt_cgroup_read(path, &g, NULL))
		return false;
	limit = mt_whole_fact(&g.memory, "limit_bytes");
	killed = mt_whole_fact(&g.memory, "oom_kills");
	if (limit == MT_MEMORY_UNKNOWN)
		return false;
	snprintf(name, sizeof(name), "memory of the control group %.100s", path);
	set(f, name, false, used_of(&g.memory), limit);
	if (killed != MT_MEMORY_UNKNOWN)
		*(is_first ? &f->killed_before : &f->killed_now) = killed;
	return true;
}

/* The group, or the next one above it that has a limit. */
static void read_group(struct mt_triage_facts *f, bool is_first)
{
	mt_auto(free) char *text = NULL;
	char path[4096];

	snprintf(path, sizeof(path), "/proc/%d/cgroup", (int)f->pid);
	text = mt_file_text(path, TEXT_MAX);
	if (!text || !mt_cgroup_parse_path(text, path, sizeof(path)))
		return;
	while (path[0] && path[1] && !take_group(f, path, is_first))
		*strrchr(path, '/') = 0;
}

void mt_triage_read_limits(struct mt_triage_facts *f, bool is_first)
{
	read_process(f);
	read_group(f, is_first);
}
