/* SPDX-License-Identifier: MIT */
/* What a running process tells of its mappings beside /proc/PID/smaps. It is not stopped. */

#include "target/vma_kind.h"

#include "base/alloc.h"
#include "base/file.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

enum { SYSCALL_MAX = 1024 };

/* "0 0x3 0x7f.. ... SP PC" in a system call, "-1 SP PC" elsewhere, "running". */
int mt_vma_parse_syscall(const char *text, uint64_t *ret_sp)
{
	uint64_t last = 0, before = 0;
	int words = 0;

	for (;;) {
		char *end;
		uint64_t number;

		errno = 0;
		number = strtoull(text, &end, 0);
		if (end == text || errno)
			break;
		before = last;
		last = number;
		words++;
		text = end;
	}
	if ((words != 3 && words != 9) || text[strspn(text, " \n")])
		return -ENODATA;
	*ret_sp = before;
	return 0;
}

static void add_thread(struct mt_vma_process *p, size_t *capacity, const char *tid)
{
	mt_auto(free) char *text = NULL;
	char path[300];
	uint64_t sp, *grown;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/syscall", (int)p->pid, tid);
	p->threads++;
	if (mt_file_read(path, SYSCALL_MAX, &text, &len, NULL) || mt_vma_parse_syscall(text, &sp)) {
		p->threads_running++;
		return;
	}
	grown = mt_alloc_grow(p->sp, capacity, p->sp_count + 1, sizeof(*grown));
	if (!grown)
		return;
	p->sp = grown;
	p->sp[p->sp_count++] = sp;
}

static size_t read_memory(void *context, uint64_t address, void *to, size_t bytes)
{
	const struct mt_vma_process *p = context;
	struct iovec here = {to, bytes}, there = {(void *)(uintptr_t)address, bytes};
	ssize_t n = process_vm_readv(p->pid, &here, 1, &there, 1, 0);

	return n < 0 ? 0 : (size_t)n;
}

static bool can_be_read(pid_t pid)
{
	char byte;
	struct iovec here = {&byte, 1}, there = {NULL, 1};

	/* address 0 is never there: what matters is whether asking is allowed */
	return process_vm_readv(pid, &here, 1, &there, 1, 0) == 1 || errno == EFAULT;
}

void mt_vma_process_init(struct mt_vma_process *p, pid_t pid)
{
	char path[64];
	size_t capacity = 0;
	ssize_t len;
	DIR *d;

	*p = (struct mt_vma_process){.pid = pid};
	snprintf(path, sizeof(path), "/proc/%d/exe", (int)pid);
	len = readlink(path, p->program, sizeof(p->program) - 1);
	p->program[len < 0 ? 0 : len] = 0;
	snprintf(path, sizeof(path), "/proc/%d/task", (int)pid);
	d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));)
		if (isdigit((unsigned char)e->d_name[0]))
			add_thread(p, &capacity, e->d_name);
	if (d)
		closedir(d);
	p->facts = (struct mt_vma_facts){
		.program = len > 0 ? p->program : NULL,
		.sp = p->sp,
		.sp_count = p->sp_count,
		.read = can_be_read(pid) ? read_memory : NULL,
		.context = p,
	};
}

int mt_vma_process_find_java(struct mt_vma_process *p, const struct mt_smaps *s)
{
	int code = mt_java_find(p->pid, s, &p->java);

	p->facts.java_start = p->java.start;
	p->facts.java_end = p->java.end;
	return code;
}

void mt_vma_process_done(struct mt_vma_process *p)
{
	if (p)
		free(p->sp);
}
