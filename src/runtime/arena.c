/* SPDX-License-Identifier: MIT */
/* The private arena. Untouched pages cost nothing, so it is reserved large. */
#include "runtime/arena.h"

#include "core/sys.h"
#include "runtime/rt.h"

int mt_arena_reserve(void)
{
	struct mt_rlimit64 limit = {UINT64_MAX, UINT64_MAX};
	size_t bytes = (size_t)8 << 30;
	mt_sys_getrlimit(MT_RLIMIT_AS, &limit);
	while (bytes > limit.cur / 16 && bytes > 1 << 20)
		bytes /= 2;
	for (; bytes >= 1 << 20; bytes /= 2) {
		long at = mt_sys_mmap(NULL, bytes, MT_PROT_READ | MT_PROT_WRITE,
				      MT_MAP_PRIVATE | MT_MAP_ANONYMOUS | MT_MAP_NORESERVE, -1, 0);
		if (mt_sys_is_error(at))
			continue;
		mt_rt.arena = (char *)at;
		mt_rt.arena_bytes = bytes;
		mt_rt.arena_used = 0;
		/* huge pages would make the sparse index dense */
		mt_sys_madvise(mt_rt.arena, bytes, MT_MADV_NOHUGEPAGE);
		mt_sys_madvise(mt_rt.arena, bytes, MT_MADV_DONTDUMP);
		return 0;
	}
	return -MT_ENOMEM;
}

void *mt_arena_take(size_t bytes)
{
	size_t align = bytes >= 4096 ? 4096 : 64, at, end;
	if (!bytes || bytes > mt_rt.arena_bytes)
		return NULL;
	at = __atomic_load_n(&mt_rt.arena_used, __ATOMIC_RELAXED);
	do {
		end = MT_ALIGN_UP(at, align) + bytes;
		if (end > mt_rt.arena_bytes)
			return NULL;
	} while (!__atomic_compare_exchange_n(&mt_rt.arena_used, &at, end, 1, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return mt_rt.arena + MT_ALIGN_UP(at, align);
}

void mt_arena_trim(uint64_t keep_bytes)
{
	size_t used = __atomic_load_n(&mt_rt.arena_used, __ATOMIC_RELAXED), end = mt_rt.arena_bytes;
	size_t keep = MT_ALIGN_UP(MT_MAX(used * 2, used + keep_bytes), 65536);
	if (keep >= end)
		return;
	__atomic_store_n(&mt_rt.arena_bytes, keep, __ATOMIC_RELEASE);
	mt_sys_munmap(mt_rt.arena + keep, end - keep);
}

void mt_arena_give_up(void)
{
	if (mt_rt.arena)
		mt_sys_munmap(mt_rt.arena, mt_rt.arena_bytes);
	mt_rt.arena = NULL;
	mt_rt.arena_bytes = mt_rt.arena_used = 0;
}

void mt_arena_drop(void)
{
	if (mt_rt.arena && mt_rt.arena_used)
		mt_sys_madvise(mt_rt.arena, MT_ALIGN_UP(mt_rt.arena_used, 4096), MT_MADV_DONTNEED);
	mt_rt.arena_used = 0;
}
