/* SPDX-License-Identifier: MIT */
/*
 * Records lie in the LARGE region and never move, so that a reader or a kill sees whole records; a
 * private array of (start, record), sorted by start, finds them. Mapping calls are system calls, so
 * a lock and a binary search do not matter.
 */
#include "runtime/mapping.h"

#include "core/sys.h"
#include "runtime/arena.h"
#include "runtime/lock.h"
#include "runtime/names.h"
#include "runtime/provider.h"
#include "runtime/record.h"
#include "runtime/storage.h"

enum { FIRST_RANGES = 256, REMAP_DONTUNMAP = 4 };
/* User addresses: of a process that did not ask for more, and at most. */
#if defined(__x86_64__)
enum { LOW_ADDRESS_BITS = 47, HIGH_ADDRESS_BITS = 56 };
#else
enum { LOW_ADDRESS_BITS = 48, HIGH_ADDRESS_BITS = 52 };
#endif

struct range {
	uint64_t start;
	uint32_t record;
	uint32_t stamp;   /* of the call that made it: rises */
	uint32_t leaving; /* 1: an mremap is under way that may move it */
	uint32_t reserved;
};

static struct {
	uint32_t lock;
	uint32_t count, capacity, free_head;
	uint32_t stamp; /* the last one given */
	struct range *range;
} set;

void mt_mapping_forget(void)
{
	set.lock = set.count = set.capacity = set.free_head = set.stamp = 0;
	set.range = NULL;
}

uint32_t mt_mapping_stamp(void)
{
	return __atomic_load_n(&set.stamp, __ATOMIC_ACQUIRE);
}

static uint64_t end_of(uint32_t i)
{
	const struct mt_state_large *l = &mt_rt.large[set.range[i].record];
	return l->place + l->size;
}

/* Index of the first range that ends behind address. */
static uint32_t first_behind(uint64_t address)
{
	uint32_t a = 0, b = set.count;
	while (a < b) {
		uint32_t mid = (a + b) / 2;
		if (end_of(mid) <= address)
			a = mid + 1;
		else
			b = mid;
	}
	return a;
}

static int make_room(void)
{
	if (set.count < set.capacity)
		return 0;
	uint32_t n = set.capacity ? set.capacity * 2 : FIRST_RANGES;
	struct range *made = mt_arena_take_table(n * sizeof(*made));
	if (!made)
		return -MT_ENOMEM;
	for (uint32_t i = 0; i < set.count; i++)
		made[i] = set.range[i];
	set.range = made;
	set.capacity = n;
	return 0;
}

static uint32_t take_record(void)
{
	uint32_t r = set.free_head;
	if (r)
		set.free_head = mt_rt.large[r].sequence;
	else
		r = mt_storage_take(MT_REGION_LARGE, 1);
	return r;
}

static int insert(uint32_t at, uint64_t start, uint64_t bytes, uint32_t heap, uint32_t cell,
		  uint32_t unit)
{
	uint32_t r = make_room() ? 0 : take_record();
	if (!r) {
		mt_rt_lost(MT_LOST_MAPPING_FULL);
		return -MT_ENOMEM;
	}
	struct mt_state_large *l = &mt_rt.large[r];
	l->size = bytes;
	l->cell = cell;
	l->unit = unit;
	l->heap = heap;
	__atomic_store_n(&l->place, start, __ATOMIC_RELEASE);
	for (uint32_t i = set.count++; i > at; i--)
		set.range[i] = set.range[i - 1];
	set.range[at] = (struct range){.start = start, .record = r, .stamp = set.stamp};
	return 0;
}

static void erase(uint32_t at)
{
	uint32_t r = set.range[at].record;
	__atomic_store_n(&mt_rt.large[r].place, 0, __ATOMIC_RELEASE);
	mt_rt.large[r].sequence = set.free_head;
	set.free_head = r;
	set.count--;
	for (uint32_t i = at; i < set.count; i++)
		set.range[i] = set.range[i + 1];
}

/* Cuts [from, to) out of range i; returns the index behind what is left of it. */
static uint32_t cut(struct mt_thread *t, uint32_t i, uint64_t from, uint64_t to)
{
	struct mt_state_large *l = &mt_rt.large[set.range[i].record];
	uint64_t start = l->place, end = start + l->size;
	if (set.range[i].leaving) {
		from = start;
		to = end;
	}
	uint64_t a = MT_MAX(from, start), b = MT_MIN(to, end);
	int whole = a == start && b == end;
	mt_record_mapping_gone(t, l->heap, l->cell, b - a, l->unit, whole);
	if (whole) {
		erase(i);
		return i;
	}
	if (a > start && b < end) { /* a hole in the middle: the tail becomes a range of its own */
		l->size = a - start;
		if (insert(i + 1, b, end - b, l->heap, l->cell, l->unit))
			return i + 1;
		set.range[i + 1].stamp = set.range[i].stamp;
		return i + 2;
	}
	if (a > start) {
		l->size = a - start;
	} else {
		l->size = end - b;
		__atomic_store_n(&l->place, b, __ATOMIC_RELEASE);
		set.range[i].start = b;
	}
	return i + 1;
}

/* Cuts [from, to) out of all ranges that are not newer than stamp. 1 when there were any. */
static int remove_locked(struct mt_thread *t, uint64_t from, uint64_t to, uint32_t stamp)
{
	uint32_t i = first_behind(from);
	int any = 0;
	while (i < set.count && set.range[i].start < to) {
		if ((int32_t)(set.range[i].stamp - stamp) > 0) {
			i++;
			continue;
		}
		i = cut(t, i, from, to);
		any = 1;
	}
	return any;
}

void mt_mapping_remove(struct mt_thread *t, uint64_t address, uint64_t bytes)
{
	if (!bytes || !__atomic_load_n(&set.count, __ATOMIC_RELAXED) || !mt_lock(&set.lock))
		return;
	remove_locked(t, address, address + bytes, set.stamp);
	mt_unlock(&set.lock);
}

void mt_mapping_add(struct mt_thread *t, uint32_t heap, uint64_t address, uint64_t bytes,
		    enum mt_state_call call, const struct mt_caller *caller)
{
	if (!bytes)
		return;
	uint32_t cell = mt_record_mapping_alloc(t, heap, bytes, call, caller);
	if (!mt_lock(&set.lock))
		return;
	remove_locked(t, address, address + bytes, set.stamp);
	__atomic_store_n(&set.stamp, set.stamp + 1, __ATOMIC_RELEASE);
	insert(first_behind(address), address, bytes, heap, cell, (uint32_t)mt_rt.hdr->now_unit);
	mt_unlock(&set.lock);
}

static int set_leaving(uint64_t from, uint64_t to, uint32_t leaving)
{
	int known = 0;
	if (!__atomic_load_n(&set.count, __ATOMIC_RELAXED) || !mt_lock(&set.lock))
		return 0;
	for (uint32_t i = first_behind(from); i < set.count && set.range[i].start < to; i++) {
		known = 1;
		if (set.range[i].start >= from && end_of(i) <= to)
			set.range[i].leaving = leaving;
	}
	mt_unlock(&set.lock);
	return known;
}

int mt_mapping_leaves(uint64_t address, uint64_t bytes)
{
	return set_leaving(address, address + MT_MAX(bytes, 1), 1);
}

void mt_mapping_stays(uint64_t address, uint64_t bytes)
{
	set_leaving(address, address + bytes, 0);
}

void mt_mapping_moved(struct mt_thread *t, uint64_t address, uint64_t bytes, uint32_t stamp)
{
	if (!__atomic_load_n(&set.count, __ATOMIC_RELAXED) || !mt_lock(&set.lock))
		return;
	remove_locked(t, address, address + bytes, stamp);
	mt_unlock(&set.lock);
}

#ifndef MT_BUILD_WRAP
/* --- hooks -------------------------------------------------------------------------------------
 */

#define MAP_FAILED_POINTER ((void *)-1)

static uint64_t page_up(size_t bytes)
{
	return MT_ALIGN_UP((uint64_t)bytes, 4096);
}

/* Would the kernel look at this range at all? */
static int is_in_reach(uint64_t address, uint64_t bytes)
{
	uint64_t end =
		address >> LOW_ADDRESS_BITS ? 1ull << HIGH_ADDRESS_BITS : 1ull << LOW_ADDRESS_BITS;
	return address < end && bytes <= end - address;
}

/*
 * Guard for the books of a mapping call: NULL when it is not to be tracked. Not held during the
 * call, so that a signal handler that runs then is tracked as ever.
 */
static struct mt_thread *begin(uint32_t heap)
{
	struct mt_thread *t;
	enum mt_enter how = mt_enter(&t);
	if (how == MT_ENTER_NESTED)
		mt_rt_lost(MT_LOST_NESTED);
	if (how != MT_ENTER_TRACK)
		return NULL;
	if (!(mt_rt.options.heaps >> heap & 1)) {
		mt_leave(t);
		return NULL;
	}
	return t;
}

typedef void *(*mmap_function)(void *, size_t, int, int, int, int64_t);

static void *do_mmap(mmap_function original, void *addr, size_t len, int prot, int flags, int fd,
		     int64_t off, struct mt_caller caller)
{
	void *p = original(addr, len, prot, flags, fd, off);
	struct mt_thread *t = begin(MT_HEAP_MMAP);
	if (!t)
		return p;
	if (p != MAP_FAILED_POINTER) {
		/* shared and file mappings are no heap, but they may have replaced one */
		if (flags & MT_MAP_ANONYMOUS && mt_recording())
			mt_mapping_add(t, MT_HEAP_MMAP, (uint64_t)p, page_up(len), MT_CALL_MMAP,
				       &caller);
		else if (flags & MT_MAP_FIXED)
			mt_mapping_remove(t, (uint64_t)p, page_up(len));
	}
	mt_leave(t);
	return p;
}

MT_PUBLIC void *mmap(void *addr, size_t len, int prot, int flags, int fd, int64_t off);
MT_PUBLIC void *mmap(void *addr, size_t len, int prot, int flags, int fd, int64_t off)
{
	if (!MT_PROVIDER_HAS(mt_system.mmap))
		return MAP_FAILED_POINTER;
	return do_mmap(mt_system.mmap, addr, len, prot, flags, fd, off, MT_CALLER());
}

MT_PUBLIC void *mmap64(void *addr, size_t len, int prot, int flags, int fd, int64_t off);
MT_PUBLIC void *mmap64(void *addr, size_t len, int prot, int flags, int fd, int64_t off)
{
	if (!MT_PROVIDER_HAS(mt_system.mmap64) && MT_PROVIDER_HAS(mt_system.mmap))
		mt_system.mmap64 = mt_system.mmap; /* a libc without such names */
	if (!mt_system.mmap64)
		return MAP_FAILED_POINTER;
	return do_mmap(mt_system.mmap64, addr, len, prot, flags, fd, off, MT_CALLER());
}

MT_PUBLIC int munmap(void *addr, size_t len);
MT_PUBLIC int munmap(void *addr, size_t len)
{
	if (!MT_PROVIDER_HAS(mt_system.munmap))
		return -1;
	struct mt_thread *t = begin(MT_HEAP_MMAP);
	/* before the call: another thread may get the address at once. A refused munmap (address
	   not on a page, wrong length) changes nothing here either. */
	if (t) {
		if ((uintptr_t)addr % 4096 == 0 && is_in_reach((uint64_t)addr, len))
			mt_mapping_remove(t, (uint64_t)addr, page_up(len));
		mt_leave(t);
	}
	return mt_system.munmap(addr, len);
}

MT_PUBLIC void *mremap(void *old, size_t old_len, size_t new_len, int flags, void *new_addr);
MT_PUBLIC void *mremap(void *old, size_t old_len, size_t new_len, int flags, void *new_addr)
{
	struct mt_caller caller = MT_CALLER();
	int known = 0;
	if (!MT_PROVIDER_HAS(mt_system.mremap))
		return MAP_FAILED_POINTER;
	/* asked before the call: after it the old place may be another thread's. A file's mapping
	   is no heap, wherever it moves. */
	uint32_t stamp = mt_mapping_stamp();
	struct mt_thread *t = begin(MT_HEAP_MMAP);
	if (t) {
		known = mt_mapping_leaves((uint64_t)old, page_up(old_len));
		mt_leave(t);
	}
	void *p = mt_system.mremap(old, old_len, new_len, flags, new_addr);
	if (!t || !(t = begin(MT_HEAP_MMAP)))
		return p;
	/* what another thread mapped at the old place since the call is newer than the stamp */
	if (p == MAP_FAILED_POINTER || flags & REMAP_DONTUNMAP || !old_len)
		mt_mapping_stays((uint64_t)old, page_up(old_len));
	else
		mt_mapping_moved(t, (uint64_t)old, page_up(old_len), stamp);
	if (p != MAP_FAILED_POINTER && !(known && mt_recording()))
		mt_mapping_remove(t, (uint64_t)p, page_up(new_len));
	else if (p != MAP_FAILED_POINTER)
		mt_mapping_add(t, MT_HEAP_MMAP, (uint64_t)p, page_up(new_len), MT_CALL_MREMAP,
			       &caller);
	mt_leave(t);
	return p;
}

/* The break moved from `before` to `after`. */
static void break_moved(struct mt_thread *t, uint64_t before, uint64_t after,
			const struct mt_caller *caller)
{
	if (after > before && mt_recording())
		mt_mapping_add(t, MT_HEAP_BRK, before, after - before, MT_CALL_SBRK, caller);
	else if (after < before)
		mt_mapping_remove(t, after, before - after);
}

MT_PUBLIC void *sbrk(intptr_t increment);
MT_PUBLIC void *sbrk(intptr_t increment)
{
	struct mt_caller caller = MT_CALLER();
	if (!MT_PROVIDER_HAS(mt_system.sbrk))
		return MAP_FAILED_POINTER;
	void *p = mt_system.sbrk(increment);
	struct mt_thread *t = begin(MT_HEAP_BRK);
	if (t) {
		if (p != MAP_FAILED_POINTER)
			break_moved(t, (uint64_t)p, (uint64_t)p + (uint64_t)increment, &caller);
		mt_leave(t);
	}
	return p;
}

MT_PUBLIC int brk(void *addr);
MT_PUBLIC int brk(void *addr)
{
	struct mt_caller caller = MT_CALLER();
	if (!MT_PROVIDER_HAS(mt_system.brk))
		return -1;
	long before = mt_sys1(__NR_brk, 0);
	int err = mt_system.brk(addr);
	struct mt_thread *t = begin(MT_HEAP_BRK);
	if (t) {
		if (!err)
			break_moved(t, (uint64_t)before, (uint64_t)addr, &caller);
		mt_leave(t);
	}
	return err;
}
#endif
