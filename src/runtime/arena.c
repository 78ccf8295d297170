/* SPDX-License-Identifier: MIT */
/* The private arena. Untouched pages cost nothing, so it is reserved large. */
#include "runtime/arena.h"

#include "core/fmt.h"
#include "core/mem.h"
#include "core/sys.h"
#include "runtime/rt.h"

/* Part of the arena that mt_arena_take() leaves out; set in a forked child. */
static size_t kept_at, kept_end;
static uint32_t kept_is_free;

/* The first `bytes` - 1 bytes of a file as text; "" when it cannot be read. */
static void read_text(const char *path, char *text, size_t bytes)
{
	long fd = mt_sys_open(path, MT_O_RDONLY | MT_O_CLOEXEC, 0), n = 0;
	if (fd >= 0) {
		n = mt_sys_read((int)fd, text, bytes - 1);
		mt_sys_close((int)fd);
	}
	text[n > 0 ? n : 0] = 0;
}

/* The number behind a word of /proc/meminfo, in bytes; 0 when it is not there. */
static uint64_t memory_of(const char *text, const char *word)
{
	uint64_t kib = 0;
	for (; *text; text++) {
		if (!mt_str_starts(text, word))
			continue;
		text += mt_str_len(word);
		while (*text == ' ')
			text++;
		return mt_fmt_parse_u64(&text, &kib) ? 0 : kib << 10;
	}
	return 0;
}

/*
 * Where the kernel commits memory strictly, all that is reserved counts as used, and at each fork
 * once more: what may still be committed. Elsewhere UINT64_MAX.
 */
static uint64_t committable(void)
{
	enum { STRICT = '2' };
	char text[4096];
	read_text("/proc/sys/vm/overcommit_memory", text, sizeof(text));
	if (text[0] != STRICT)
		return UINT64_MAX;
	read_text("/proc/meminfo", text, sizeof(text));
	uint64_t limit = memory_of(text, "CommitLimit:"), used = memory_of(text, "Committed_AS:");
	return limit > used ? limit - used : 0;
}

int mt_arena_reserve(void)
{
	struct mt_rlimit64 limit = {UINT64_MAX, UINT64_MAX};
	size_t bytes = (size_t)8 << 30;
	mt_sys_getrlimit(MT_RLIMIT_AS, &limit);
	uint64_t most = MT_MIN(limit.cur, committable()) / 16;
	while (bytes > most && bytes > 1 << 20)
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
	size_t align = bytes >= 4096 ? 4096 : 64, used, at, end;
	if (!bytes || bytes > mt_rt.arena_bytes)
		return NULL;
	used = __atomic_load_n(&mt_rt.arena_used, __ATOMIC_RELAXED);
	do {
		at = MT_ALIGN_UP(used, align);
		if (at < kept_end && at + bytes > kept_at)
			at = MT_ALIGN_UP(kept_end, align);
		end = at + bytes;
		if (end > mt_rt.arena_bytes)
			return NULL;
	} while (!__atomic_compare_exchange_n(&mt_rt.arena_used, &used, end, 1, __ATOMIC_RELAXED,
					      __ATOMIC_RELAXED));
	return mt_rt.arena + at;
}

void *mt_arena_take_table(size_t bytes)
{
	uint64_t all = __atomic_add_fetch(&mt_rt.table_bytes, bytes, __ATOMIC_RELAXED);
	const struct mt_state_header *h = mt_rt.hdr;
	if (h && h->max_bytes &&
	    all + __atomic_load_n(&h->committed_bytes, __ATOMIC_RELAXED) > h->max_bytes) {
		__atomic_fetch_sub(&mt_rt.table_bytes, bytes, __ATOMIC_RELAXED);
		mt_rt_note(MT_NOTE_LIMIT_REACHED);
		return NULL;
	}
	return mt_arena_take(bytes);
}

void mt_arena_release_table(void *table, size_t bytes)
{
	if (mt_rt.sandboxed == MT_SANDBOX_NO_CALLS || bytes < 4096)
		return;
	/* from 4096 bytes on tables begin at a page; the last one may be shared with the next */
	mt_sys_madvise(table, MT_ALIGN_DOWN(bytes, 4096), MT_MADV_DONTNEED);
	__atomic_fetch_sub(&mt_rt.table_bytes, bytes, __ATOMIC_RELAXED);
}

void mt_arena_trim(uint64_t keep_bytes)
{
	size_t used = MT_MAX(__atomic_load_n(&mt_rt.arena_used, __ATOMIC_RELAXED), kept_end);
	size_t end = mt_rt.arena_bytes;
	size_t keep = MT_ALIGN_UP(MT_MAX(used * 2, used + keep_bytes), 65536);
	if (keep >= end)
		return;
	__atomic_store_n(&mt_rt.arena_bytes, keep, __ATOMIC_RELEASE);
	if (mt_rt.hdr)
		__atomic_store_n(&mt_rt.hdr->arena_bytes, keep, __ATOMIC_RELAXED);
	mt_sys_munmap(mt_rt.arena + keep, end - keep);
}

void mt_arena_give_up(void)
{
	if (mt_rt.arena)
		mt_sys_munmap(mt_rt.arena, mt_rt.arena_bytes);
	mt_rt.arena = NULL;
	mt_rt.arena_bytes = mt_rt.arena_used = 0;
}

void mt_arena_drop(const void *keep, size_t bytes)
{
	size_t used = MT_MAX(mt_rt.arena_used, kept_end);
	if (mt_rt.arena && used)
		mt_sys_madvise(mt_rt.arena, MT_ALIGN_UP(used, 4096), MT_MADV_DONTNEED);
	mt_rt.arena_used = 0;
	mt_rt.table_bytes = 0;
	if (keep) {
		kept_at = (size_t)((const char *)keep - mt_rt.arena);
		kept_end = kept_at + bytes;
	}
	kept_is_free = 1;
}

void *mt_arena_take_kept(size_t bytes)
{
	if (!kept_is_free || kept_end - kept_at != bytes)
		return NULL;
	kept_is_free = 0;
	return mt_rt.arena + kept_at;
}
