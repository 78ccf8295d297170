/* SPDX-License-Identifier: MIT */
/*
 * Images of processes: what /proc tells, and bytes. Those of a process that runs on come by
 * process_vm_readv(), which sees mappings that are new. It pins pages, and a page that is shared
 * since a fork is copied before it is pinned: to read a copy in this way would make it as large as
 * the process. /proc/PID/mem only looks, so that all others are read through it. Each is the
 * other's substitute. Mappings of devices are not touched by either, nor are pages that a running
 * process has not touched itself.
 */

#include "target/image_process.h"

#include "base/alloc.h"
#include "base/file.h"
#include "core/cc.h"
#include "target/image_absent.h"
#include "target/image_apart.h"
#include "target/image_internal.h"
#include "target/image_keeper.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>

enum { MAPS_BYTES_MAX = 1 << 30, AUXV_BYTES_MAX = 65536, TEXT_MAX = 4096 };
#define READ_AT_ONCE ((size_t)64 << 20)

/* ---- bytes ---- */

static void open_memory(struct mt_image *im)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", (int)im->read_pid);
	im->mem_fd = open(path, O_RDONLY | O_CLOEXEC);
}

/* As pread(). What may not be read has EFAULT from the one and EIO from the other. */
static ssize_t read_by_file(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	/* the file gives what no access of the process would: not more than the call */
	const struct mt_mapping *m = mt_image_mapping_of(im, address);

	if (!m || !m->in_image)
		return 0;
	return pread(im->mem_fd, to, (size_t)MT_MIN((uint64_t)bytes, m->end - address),
		     (off_t)address);
}

static ssize_t read_part(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	struct iovec here = {to, bytes};
	struct iovec there = {(void *)(uintptr_t)address, bytes};
	ssize_t n;

	if (im->mem_fd >= 0)
		return read_by_file(im, address, to, bytes);
	n = process_vm_readv(im->read_pid, &here, 1, &there, 1, 0);
	if (n >= 0 || errno == EFAULT || errno == ESRCH || errno == EINVAL || errno == EINTR ||
	    im->facts.source != MT_IMAGE_LIVE)
		return n;
	open_memory(im); /* ENOSYS, or a filter on us */
	return im->mem_fd >= 0 ? read_by_file(im, address, to, bytes) : -1;
}

/* What the copy lacks, or a part up to where that begins. */
static ssize_t read_here_or_there(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	uint64_t next;
	const struct mt_image_apart *apart = mt_image_apart_of(im, address, &next);

	if (!apart)
		return read_part(im, address, to, (size_t)MT_MIN((uint64_t)bytes, next - address));
	bytes = (size_t)MT_MIN((uint64_t)bytes, apart->end - address);
	memcpy(to, apart->data + (address - apart->start), bytes);
	return (ssize_t)bytes;
}

/* Parts that end early are tried on: the first page that cannot be read ends it. */
static size_t read_process(struct mt_image *im, uint64_t address, void *to, size_t bytes)
{
	size_t done = 0;

	while (done < bytes) {
		size_t want = MT_MIN(bytes - done, READ_AT_ONCE);
		char *at = (char *)to + done;
		ssize_t n = 0;

		if (im->absent)
			n = (ssize_t)mt_image_absent_read(im->absent, im, address + done, at,
							  &want);
		if (!n)
			n = read_here_or_there(im, address + done, at, want);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static const struct mt_image_ops process_ops = {.read = read_process};

/* ---- tables ---- */

static int read_proc(pid_t pid, const char *name, size_t most, char **ret_text, size_t *ret_len)
{
	char path[128];

	snprintf(path, sizeof(path), "/proc/%d/%s", (int)pid, name);
	return mt_file_read(path, most, ret_text, ret_len, NULL);
}

static int read_maps(struct mt_image *im)
{
	mt_auto(free) char *text = NULL;
	size_t len;
	int code = read_proc(im->read_pid, "maps", MAPS_BYTES_MAX, &text, &len);

	return code ? code : mt_image_parse_maps(im, text);
}

static int read_auxv(struct mt_image *im)
{
	char *text;
	size_t len;
	int code = read_proc(im->read_pid, "auxv", AUXV_BYTES_MAX, &text, &len);

	if (code)
		return code;
	if (mt_arena_adopt(im->arena, text)) {
		free(text);
		return -ENOMEM;
	}
	im->auxv = (Elf64_auxv_t *)(void *)text;
	im->auxv_count = len / sizeof(*im->auxv);
	if (mt_image_auxv(im, AT_PAGESZ))
		im->facts.page_bytes = mt_image_auxv(im, AT_PAGESZ);
	return 0;
}

/* The program's file says what kind of process it is. */
static int check_program(struct mt_image *im, struct mt_err *err)
{
	mt_auto(close) int fd = -1;
	Elf64_Ehdr e = {0};
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", (int)im->facts.pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return mt_image_refuse(im->facts.pid, errno, err);
	if (mt_file_pread(fd, &e, sizeof(e), 0) != sizeof(e) || memcmp(e.e_ident, ELFMAG, SELFMAG))
		return mt_err_set(err, -ENOTSUP, "the program of process %d is no ELF file",
				  (int)im->facts.pid);
	if (e.e_ident[EI_CLASS] != ELFCLASS64)
		return mt_err_set(err, -ENOTSUP,
				  "process %d is a program of 32 bits: not supported",
				  (int)im->facts.pid);
	if (e.e_machine != EM_X86_64 && e.e_machine != EM_AARCH64)
		return mt_err_set(err, -ENOTSUP, "process %d is of another architecture",
				  (int)im->facts.pid);
	im->facts.arch = e.e_machine == EM_X86_64 ? MT_IMAGE_X86_64 : MT_IMAGE_AARCH64;
	return 0;
}

/* "running", or NUMBER ARGUMENTS... SP PC of a thread that waits in a system call. */
static void read_waiting(pid_t pid, struct mt_image_thread *t)
{
	mt_auto(free) char *text = NULL;
	char name[64], *at;
	uint64_t sp, pc;
	size_t len;

	snprintf(name, sizeof(name), "task/%d/syscall", (int)t->tid);
	if (read_proc(pid, name, TEXT_MAX, &text, &len))
		return;
	at = strrchr(text, ' ');
	if (!at)
		return;
	pc = strtoull(at, NULL, 16);
	*at = 0;
	at = strrchr(text, ' ');
	sp = at ? strtoull(at, NULL, 16) : 0;
	if (sp && pc) {
		t->sp = sp;
		t->pc = pc;
	}
}

static int compare_tids(const void *va, const void *vb)
{
	pid_t a = *(const pid_t *)va, b = *(const pid_t *)vb;

	return a < b ? -1 : a > b;
}

/* The threads of a process that runs on. */
static int list_threads(struct mt_image *im)
{
	mt_auto(free) pid_t *tids = NULL;
	size_t count = 0, cap = 0;
	char path[64];
	DIR *d;

	snprintf(path, sizeof(path), "/proc/%d/task", (int)im->facts.pid);
	d = opendir(path);
	if (!d)
		return -errno;
	for (struct dirent *e; (e = readdir(d));) {
		pid_t tid = (pid_t)strtol(e->d_name, NULL, 10);
		pid_t *grown = tid > 0 ? mt_alloc_grow(tids, &cap, count + 1, sizeof(*tids)) : tids;

		if (tid <= 0)
			continue;
		if (!grown) {
			closedir(d);
			return -ENOMEM;
		}
		tids = grown;
		tids[count++] = tid;
	}
	closedir(d);
	if (count)
		qsort(tids, count, sizeof(*tids), compare_tids);
	im->thread = mt_arena_array(im->arena, count, sizeof(*im->thread));
	if (!im->thread)
		return -ENOMEM;
	im->thread_count = count;
	for (size_t i = 0; i < count; i++) {
		im->thread[i].tid = tids[i];
		im->thread[i].is_missing = true;
		read_waiting(im->facts.pid, &im->thread[i]);
	}
	return 0;
}

/* ---- opening ---- */

/* Stops the process, or makes its copy; the tables of threads. */
static int take_hold(struct mt_image *im, enum mt_image_source wanted, struct mt_err *err)
{
	struct mt_keeper_result r;
	int code = mt_keeper_start(im->facts.pid, wanted == MT_IMAGE_COPY, im->arena, &im->keeper,
				   &r, err);

	if (code)
		return code;
	im->thread = r.threads;
	im->thread_count = r.thread_count;
	im->began_ns = r.began_ns;
	im->facts.source = r.copy ? MT_IMAGE_COPY : MT_IMAGE_STOPPED;
	im->facts.stop_ns = r.stop_ns;
	im->faults_then = r.faults;
	im->facts.copy = r.copy;
	if (r.copy)
		im->read_pid = r.copy;
	open_memory(im);
	return 0;
}

static int open_process(struct mt_image *im, enum mt_image_source wanted, struct mt_err *err)
{
	int code = check_program(im, err);

	if (!code && wanted != MT_IMAGE_LIVE)
		code = take_hold(im, wanted, err);
	if (code)
		return code;
	code = read_maps(im);
	if (!code && !im->mapping_count)
		code = -EACCES; /* the kernel says nothing to those who may not look */
	if (!code)
		code = read_auxv(im);
	if (wanted == MT_IMAGE_LIVE)
		im->absent = mt_image_absent_new(im->read_pid);
	if (!code && wanted == MT_IMAGE_LIVE)
		code = list_threads(im);
	else if (!code)
		code = mt_image_remember(im);
	if (im->facts.source == MT_IMAGE_COPY && !code)
		code = mt_image_take_apart(im);
	if (!code)
		code = mt_image_find_modules(im);
	return code ? mt_image_refuse(im->facts.pid, code, err) : 0;
}

int mt_image_open_process(pid_t pid, enum mt_image_source wanted, struct mt_image **ret_image,
			  struct mt_err *err)
{
	struct mt_image *im = mt_image_new(&process_ops);
	struct mt_err remark = {0};
	int code;

	if (!im)
		return mt_err_no_memory(err);
	im->facts.source = MT_IMAGE_LIVE;
	im->facts.pid = im->read_pid = pid;
	snprintf(im->root, sizeof(im->root), "/proc/%d/root", (int)pid);
	code = open_process(im, wanted, &remark);
	if (err)
		*err = remark;
	if (code) {
		mt_image_close(im);
		return code;
	}
	*ret_image = im;
	return 0;
}

int mt_image_is_there(const struct mt_image *im, struct mt_err *err)
{
	struct mt_image_status status;

	if (im->facts.source == MT_IMAGE_CORE ||
	    (!mt_image_read_status(im->read_pid, 0, &status) && status.has_memory))
		return 0;
	if (im->facts.source == MT_IMAGE_COPY)
		return mt_err_set(err, -ESRCH,
				  "the copy of process %d was killed while it was read, as by the "
				  "kernel when memory runs out",
				  (int)im->facts.pid);
	return mt_err_set(err, -ESRCH, "process %d ended while it was read", (int)im->facts.pid);
}
