/* SPDX-License-Identifier: MIT */
/* A copy of the present state; see snapshot.h. */
#include "runtime/snapshot.h"

#include "core/sys.h"
#include "runtime/storage.h"
#include "runtime/thread.h"

static uint64_t elements(const struct mt_state_region *r)
{
	uint64_t used = __atomic_load_n(&r->used, __ATOMIC_RELAXED);
	uint64_t capacity = __atomic_load_n(&r->capacity, __ATOMIC_RELAXED);
	return MT_MIN(used, capacity);
}

static int write_all(int fd, const void *data, uint64_t bytes, uint64_t at)
{
	while (bytes) {
		long n = mt_sys_pwrite(fd, data, bytes, (int64_t)at);
		if (n == -MT_EINTR)
			continue;
		if (n <= 0)
			return n ? (int)n : -MT_ENOSPC;
		data = (const char *)data + n;
		bytes -= (uint64_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

/* Same offsets as in the live file: the copy is sparse, the reader skips what is not used. */
static int copy_state(int fd)
{
	uint32_t kind = MT_END_SNAPSHOT;
	int err = (int)mt_sys_ftruncate(fd, (int64_t)mt_rt.file_bytes);
	for (int k = 1; !err && k < MT_REGIONS; k++) {
		const struct mt_state_region *r = mt_rt.region[k];
		if (!r)
			continue;
		uint64_t bytes = MT_MIN(elements(r) * r->elem_bytes, r->committed_bytes);
		err = write_all(fd, mt_storage_base(k), bytes, r->offset);
	}
	if (!err)
		err = write_all(fd, mt_rt.hdr, MT_STATE_HEADER_BYTES, 0);
	if (!err)
		err = write_all(fd, &kind, sizeof(kind),
				offsetof(struct mt_state_header, end_kind));
	return err;
}

/* A file larger than permitted would end the program with SIGXFSZ. */
static int is_permitted(void)
{
	struct mt_rlimit64 limit;
	return mt_sys_getrlimit(MT_RLIMIT_FSIZE, &limit) < 0 || limit.cur >= mt_rt.file_bytes;
}

int mt_snapshot_write(struct mt_thread *t, const char *path)
{
	if (!is_permitted())
		return -MT_EFBIG;
	mt_thread_tick(t);
	long fd = mt_sys_open(path, MT_O_WRONLY | MT_O_CREAT | MT_O_EXCL | MT_O_CLOEXEC, 0600);
	int err = (int)fd;
	if (fd >= 0) {
		err = copy_state((int)fd);
		mt_sys_close((int)fd);
		if (err)
			mt_sys_unlink(path);
	}
	return err;
}
