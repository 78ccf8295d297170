/* SPDX-License-Identifier: MIT */
/*
 * Counts the instances of a program. The bound holds when several start at the same moment: each
 * makes its state file first and then counts those with an earlier start. A file is seen from the
 * moment on when it is made, and its start is written after that: of two, the later one sees the
 * earlier one. A file whose header is not written yet counts as earlier.
 */
#include "runtime/instances.h"

#include <linux/fcntl.h>

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/storage.h"

#ifndef MT_BUILD_WRAP

enum { LIST_BYTES = 4096, LISTS_MAX = 4096, FILES_MAX = 4096 };

struct dirent64 {
	uint64_t inode, offset;
	uint16_t bytes;
	uint8_t type;
	char name[];
};

/* One directory's names, in pieces. */
struct names {
	int fd;
	uint32_t lists; /* read so far */
	long at, len;
	char buf[LIST_BYTES] __attribute__((aligned(8)));
};

static void begin_names(struct names *n, long fd)
{
	n->fd = (int)fd;
	n->lists = 0;
	n->at = n->len = 0;
}

/* The next name, or NULL at the end. A list that is too long or cannot be read: *ret_cut is set. */
static const char *next_name(struct names *n, int *ret_cut)
{
	if (n->at >= n->len) {
		n->len = n->lists++ < LISTS_MAX
				 ? mt_sys3(__NR_getdents64, n->fd, n->buf, sizeof(n->buf))
				 : -MT_EFBIG;
		n->at = 0;
		if (n->len < 0)
			*ret_cut = 1;
		if (n->len <= 0)
			return NULL;
	}
	const struct dirent64 *entry = (const struct dirent64 *)(n->buf + n->at);
	n->at += entry->bytes;
	return entry->name;
}

/* Is the process of a file at work? Its number may belong to another one by now. */
static int is_alive(const struct mt_state_header *h)
{
	char path[48];
	struct mt_fmt f;
	if (mt_sys2(__NR_kill, h->pid, 0) == -MT_ESRCH)
		return 0;
	mt_fmt_init(&f, path, sizeof(path));
	mt_fmt_str(&f, "/proc/");
	mt_fmt_u64(&f, (uint64_t)h->pid);
	mt_fmt_str(&f, "/stat");
	uint64_t start = mt_storage_process_start(path);
	return !start || !h->proc_start || start == h->proc_start;
}

/* A state file: 1 when its process lives. *first: lowered to its start, 0 when that is not known.
 */
static int look_at_file(int dir, const char *name, uint64_t *first)
{
	struct mt_state_header h;
	long fd = mt_sys4(__NR_openat, dir, name,
			  MT_O_RDONLY | MT_O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK, 0);
	if (fd == -MT_ENOENT)
		return 0;
	mt_mem_zero(&h, sizeof(h));
	long n = fd < 0 ? fd : mt_sys_pread((int)fd, &h, sizeof(h), 0);
	if (fd >= 0)
		mt_sys_close((int)fd);
	if (n != (long)sizeof(h) || !mt_mem_equal(h.magic, MT_STATE_MAGIC, sizeof(h.magic)) ||
	    h.pid <= 0) {
		*first = 0;
		return 1;
	}
	*first = MT_MIN(*first, h.mono_start_ns);
	return is_alive(&h);
}

/* 1 when the directory belongs to a living instance that began before the moment. */
static int counts(int parent, const char *name, uint64_t mono_start_ns)
{
	struct names n;
	struct statx s;
	uint64_t first = UINT64_MAX;
	int alive = 0, cut = 0, files = 0;
	long fd = mt_sys4(__NR_openat, parent, name,
			  MT_O_RDONLY | MT_O_CLOEXEC | O_DIRECTORY | O_NOFOLLOW, 0);
	if (fd < 0)
		return 0; /* gone, or another user's */
	if (mt_sys6(__NR_statx, fd, (long)"", AT_EMPTY_PATH, STATX_UID, (long)&s, 0) < 0 ||
	    s.stx_uid != (uint32_t)mt_sys0(__NR_geteuid)) {
		mt_sys_close((int)fd);
		return 0;
	}
	begin_names(&n, fd);
	for (const char *file; files < FILES_MAX && (file = next_name(&n, &cut)); files++)
		if (file[0] >= '0' && file[0] <= '9')
			alive |= look_at_file((int)fd, file, &first);
	mt_sys_close((int)fd);
	return cut || files == FILES_MAX || (alive && (!mono_start_ns || first < mono_start_ns));
}

static uint32_t count_in(const char *parent, const char *prefix, uint64_t mono_start_ns)
{
	struct names n;
	uint32_t count = 0;
	int cut = 0;
	long fd = mt_sys_open(parent, MT_O_RDONLY | MT_O_CLOEXEC | O_DIRECTORY, 0);
	if (fd == -MT_ENOENT)
		return 0;
	if (fd < 0)
		return UINT32_MAX;
	begin_names(&n, fd);
	for (const char *name; (name = next_name(&n, &cut));)
		if (mt_str_starts(name, prefix))
			count += (uint32_t)counts((int)fd, name, mono_start_ns);
	mt_sys_close((int)fd);
	return cut ? UINT32_MAX : count;
}

uint32_t mt_instances_count(uint32_t tag, uint64_t mono_start_ns)
{
	char prefix[64];
	struct mt_fmt f;
	mt_fmt_init(&f, prefix, sizeof(prefix));
	mt_fmt_str(&f, "memtrack-");
	mt_fmt_u64(&f, (uint64_t)mt_sys0(__NR_geteuid));
	mt_fmt_str(&f, "-0-");
	mt_fmt_hex(&f, tag, 8);
	uint32_t first = count_in("/dev/shm", prefix, mono_start_ns);
	uint32_t second = count_in("/tmp", prefix, mono_start_ns);
	return first > UINT32_MAX - second ? UINT32_MAX : first + second;
}
#endif
