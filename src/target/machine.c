/* SPDX-License-Identifier: MIT */
/* /proc/meminfo as parts of MemTotal. */

#include "target/machine.h"

#include "base/file.h"
#include "core/cc.h"
#include "target/machine_parts.h"
#include "target/memory.h"

#include <errno.h>
#include <string.h>

enum { TEXT_MAX = 1 << 20 };

void mt_whole_add_part(struct mt_whole *w, const char *key, const char *name, const char *what,
		       uint64_t bytes)
{
	if (bytes == MT_MEMORY_UNKNOWN || w->parts == MT_PARTS_MAX)
		return;
	w->part[w->parts++] =
		(struct mt_part){.key = key, .name = name, .what = what, .bytes = bytes};
}

void mt_whole_add_fact(struct mt_whole *w, const char *key, const char *name, const char *what,
		       uint64_t bytes)
{
	if (bytes == MT_MEMORY_UNKNOWN || w->facts == MT_PARTS_MAX)
		return;
	w->fact[w->facts++] =
		(struct mt_part){.key = key, .name = name, .what = what, .bytes = bytes};
}

void mt_whole_finish(struct mt_whole *w)
{
	uint64_t rest = w->bytes;

	for (size_t i = 0; i < w->parts; i++)
		rest -= w->part[i].bytes;
	w->rest_bytes = (int64_t)rest;
}

uint64_t mt_whole_fact(const struct mt_whole *w, const char *key)
{
	for (size_t i = 0; i < w->facts; i++)
		if (!strcmp(w->fact[i].key, key))
			return w->fact[i].bytes;
	return MT_MEMORY_UNKNOWN;
}

uint64_t mt_whole_less(uint64_t a, uint64_t b)
{
	if (a == MT_MEMORY_UNKNOWN || b == MT_MEMORY_UNKNOWN)
		return a;
	return a > b ? a - b : 0;
}

static const struct {
	const char *line, *key, *name, *what;
} parts[] = {
	{"MemFree", "free_bytes", "free", "used for nothing"},
	{"AnonPages", "anon_bytes", "anonymous", "heaps and stacks of processes"},
	{"Buffers", "buffers_bytes", "buffers", "cache of raw devices"},
	{"Shmem", "shmem_bytes", "shared memory", "tmpfs, memory files, shared anonymous memory"},
	{"SwapCached", "swap_cached_bytes", "swap cache", "in memory and in swap, both"},
	{"SReclaimable", "slab_reclaimable_bytes", "reclaimable slab",
	 "caches of the kernel: names, inodes"},
	{"SUnreclaim", "slab_unreclaimable_bytes", "other slab", "objects of the kernel"},
	{"KernelStack", "kernel_stack_bytes", "kernel stacks", "of all threads"},
	{"PageTables", "page_tables_bytes", "page tables", "of all processes"},
	{"SecPageTables", "secondary_page_tables_bytes", "secondary page tables",
	 "of virtual machines and devices"},
	{"Percpu", "percpu_bytes", "per CPU", "memory of the kernel for each CPU"},
	{"Hugetlb", "hugetlb_bytes", "huge pages", "reserved for hugetlbfs, used or not"},
};

static const struct {
	const char *line, *key, *name, *what;
} facts[] = {
	{"MemAvailable", "available_bytes", "available",
	 "could be had without swapping: the kernel's estimate"},
	{"SwapTotal", "swap_total_bytes", "swap", ""},
	{"SwapFree", "swap_free_bytes", "swap, free", ""},
	{"Dirty", "dirty_bytes", "dirty", "of the page cache: to be written"},
	{"Mapped", "mapped_bytes", "mapped", "of the page cache: in address spaces"},
	{"AnonHugePages", "anon_huge_bytes", "huge, anonymous", "of anonymous: in huge pages"},
	{"Committed_AS", "committed_bytes", "committed", "promised to programs, touched or not"},
	{"CommitLimit", "commit_limit_bytes", "commit limit", "in force with overcommit_memory=2"},
	{"VmallocUsed", "vmalloc_bytes", "vmalloc", "of the kernel; kernel stacks may be in it"},
};

int mt_machine_parse(const char *text, const char *name, struct mt_whole *ret_whole,
		     struct mt_err *err)
{
	struct mt_whole w = {.bytes = mt_memory_parse(text, "MemTotal")};
	uint64_t cache = mt_memory_parse(text, "Cached");

	if (w.bytes == MT_MEMORY_UNKNOWN)
		return mt_err_set(err, -EINVAL,
				  "'%s' is no meminfo text: it has no line 'MemTotal'", name);
	for (size_t i = 0; i < MT_ARRAY_LEN(parts); i++) {
		/* of Cached: the shared memory in it has a row of its own */
		if (!strcmp(parts[i].line, "Buffers"))
			mt_whole_add_part(&w, "page_cache_bytes", "page cache",
					  "files; given back when memory is needed",
					  mt_whole_less(cache, mt_memory_parse(text, "Shmem")));
		mt_whole_add_part(&w, parts[i].key, parts[i].name, parts[i].what,
				  mt_memory_parse(text, parts[i].line));
	}
	mt_whole_finish(&w);
	for (size_t i = 0; i < MT_ARRAY_LEN(facts); i++)
		mt_whole_add_fact(&w, facts[i].key, facts[i].name, facts[i].what,
				  mt_memory_parse(text, facts[i].line));
	*ret_whole = w;
	return 0;
}

int mt_machine_read(struct mt_whole *ret_whole, struct mt_err *err)
{
	static const char path[] = "/proc/meminfo";
	mt_auto(free) char *text = NULL;
	size_t len;
	int code = mt_file_read(path, TEXT_MAX, &text, &len, err);

	return code ? code : mt_machine_parse(text, path, ret_whole, err);
}

uint64_t mt_machine_room(void)
{
	mt_auto(free) char *text = mt_file_text("/proc/meminfo", TEXT_MAX);

	return text ? mt_memory_parse(text, "MemAvailable") : MT_MEMORY_UNKNOWN;
}
