/* SPDX-License-Identifier: MIT */
/* What programs ask about their live blocks: memtrack_malloc_leak_info() and its fellows. */
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/check.h"
#include "runtime/frames.h"
#include "runtime/heap_dump.h"
#include "runtime/log.h"
#include "runtime/program_errno.h"

#define MEMTRACK_IMPLEMENTATION
#include <memtrack.h>

enum { FRAMES_MAX = 256, ENOTSUP_VALUE = 95 };

/* In front of what the program gets, in a mapping of its own. */
struct head {
	uint64_t magic, map_bytes;
	uint64_t reserved[6];
};
#define MAGIC 0x6f666e696b61656cu

static int has_stacks(void)
{
	return mt_check_is_on() &&
	       (mt_check.options.flags & (MT_CHECK_BACKTRACE | MT_CHECK_BACKTRACE_ON_SIGNAL)) != 0;
}

/* 1: nobody tried to take this block's stack. Those of other sizes count as tried in vain. */
static int was_off(const struct mt_leak *l)
{
	return !l->node && l->size >= mt_check.options.backtrace_min &&
	       l->size <= mt_check.options.backtrace_max;
}

static void drop_those_without(struct mt_leak_list *records)
{
	uint64_t kept = 0;
	for (uint64_t i = 0; i < records->count; i++)
		if (!was_off(&records->leak[i]))
			records->leak[kept++] = records->leak[i];
	records->count = kept;
}

/* size, number, frames; the rest is zeros. */
static void fill_record(uint64_t *at, const struct mt_leak *l)
{
	const struct mt_state_node *frame[FRAMES_MAX];
	uint32_t n = mt_frame_chain(l->node, frame, MT_MIN(l->frames, (uint32_t)FRAMES_MAX));
	*at++ = l->size;
	*at++ = l->place;
	for (uint32_t i = 0; i < n; i++)
		at[i] = mt_frame_pc(frame[i]);
}

/* A copy of the records for the program; NULL: there are none, or no memory. */
static uint8_t *make_info(const struct mt_leak_list *records, size_t each)
{
	size_t bytes;
	if (!records->count || mt_mul_size(records->count, each, &bytes))
		return NULL;
	bytes += sizeof(struct head);
	long at = mt_sys_mmap(NULL, bytes, MT_PROT_READ | MT_PROT_WRITE,
			      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS, -1, 0);
	if (mt_sys_is_error(at))
		return NULL;
	struct head *h = (struct head *)at;
	*h = (struct head){.magic = MAGIC, .map_bytes = bytes};
	uint8_t *info = (uint8_t *)(h + 1);
	for (uint64_t i = 0; i < records->count; i++)
		fill_record((uint64_t *)(info + i * each), &records->leak[i]);
	return info;
}

void memtrack_malloc_leak_info(uint8_t **info, size_t *overall_size, size_t *info_size,
			       size_t *total_memory, size_t *backtrace_size)
{
	struct mt_leak_list records = {0};
	struct mt_thread *t;
	if (!info || !overall_size || !info_size || !total_memory || !backtrace_size) {
		mt_log(MT_LOG_ERROR, "get_malloc_leak_info: At least one invalid parameter.");
		return;
	}
	*info = NULL;
	*overall_size = *info_size = *total_memory = *backtrace_size = 0;
	if (!has_stacks()) {
		mt_log(MT_LOG_ERROR, "get_malloc_leak_info: Allocations not being tracked, to "
				     "enable set the option 'backtrace'.");
		return;
	}
	if (mt_enter(&t) != MT_ENTER_TRACK)
		return;
	size_t frames = mt_check.options.frames;
	size_t each = 2 * sizeof(uint64_t) + frames * sizeof(uint64_t);
	if (!mt_heap_records_make(/* at_exit */ 0, &records)) {
		drop_those_without(&records);
		*info = make_info(&records, each);
	}
	if (*info) {
		*overall_size = records.count * each;
		*info_size = each;
		*backtrace_size = frames;
		for (uint64_t i = 0; i < records.count; i++)
			*total_memory += records.leak[i].size * records.leak[i].place;
	}
	mt_leak_list_done(&records);
	mt_leave(t);
}

void memtrack_free_malloc_leak_info(uint8_t *info)
{
	if (!info)
		return;
	const struct head *h = (const struct head *)info - 1;
	if (h->magic == MAGIC)
		mt_sys_munmap((void *)(uintptr_t)h, h->map_bytes);
}

int memtrack_write_malloc_leak_info(int fd)
{
	static const char help[] =
		"Native heap dump not available. To enable, start the program in one of these "
		"ways:\n"
		"# memtrack run --check=backtrace PROGRAM\n"
		"# LIBC_DEBUG_MALLOC_OPTIONS=backtrace LD_PRELOAD=libmemtrack.so PROGRAM\n";
	struct mt_thread *t;
	int err = -ENOTSUP_VALUE;
	if (!has_stacks()) {
		mt_sys_write(fd, help, sizeof(help) - 1);
	} else if (mt_enter(&t) == MT_ENTER_TRACK) {
		err = mt_heap_dump_to(fd);
		mt_leave(t);
	} else {
		err = -MT_EBUSY;
	}
	if (err)
		mt_errno_set(-err);
	return !err;
}
