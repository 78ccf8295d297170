/* SPDX-License-Identifier: MIT */
/* The ring of freed blocks; see quarantine.h. */
#include "runtime/quarantine.h"

#include "core/sys.h"
#include "runtime/check_block.h"
#include "runtime/check_report.h"
#include "runtime/lock.h"

static struct {
	struct mt_held *ring;
	uint32_t capacity, count, first;
	uint64_t bytes, bytes_max;
	uint32_t lock;
} held;

int mt_quarantine_begin(uint32_t count, uint64_t bytes)
{
	if (!count)
		return 0;
	long at =
		mt_sys_mmap(NULL, (size_t)count * sizeof(struct mt_held),
			    MT_PROT_READ | MT_PROT_WRITE, MT_MAP_PRIVATE | MT_MAP_ANONYMOUS, -1, 0);
	if (mt_sys_is_error(at))
		return (int)at;
	held.ring = (struct mt_held *)at;
	held.capacity = count;
	held.bytes_max = bytes;
	return 0;
}

void mt_quarantine_forget(void)
{
	if (held.lock) /* another thread was at it: what it left half done is not touched */
		held.capacity = held.count = 0;
	held.lock = 0;
}

/* What a block takes of the bound. */
static uint64_t weight_of(const struct mt_held *b)
{
	return b->usable + mt_layout.extra;
}

static struct mt_held *oldest_locked(void)
{
	return &held.ring[held.first];
}

/* The oldest leaves. */
MT_INLINE void pop_locked(struct mt_held *ret_oldest)
{
	*ret_oldest = *oldest_locked();
	oldest_locked()->p = 0;
	held.first = held.first + 1 == held.capacity ? 0 : held.first + 1;
	held.count--;
	held.bytes -= weight_of(ret_oldest);
}

static void push_locked(const struct mt_held *b)
{
	uint64_t at = (uint64_t)held.first + held.count;
	held.ring[at < held.capacity ? at : at - held.capacity] = *b;
	held.count++;
	held.bytes += weight_of(b);
}

static int is_over_locked(uint64_t more)
{
	return held.count == held.capacity ||
	       (held.bytes_max && held.bytes + more > held.bytes_max);
}

static int has_wrong_tag(const struct mt_held *b)
{
	return b->has_header && mt_header_of((const void *)b->p)->tag != MT_TAG_FREED;
}

static struct mt_changed changed_of(const struct mt_held *b)
{
	return mt_bytes_changed((const void *)b->p, b->filled, MT_BYTE_FREE, (const void *)b->p);
}

/* Reports what is not as the free left it. */
MT_INLINE void check(struct mt_thread *t, const struct mt_held *b)
{
	struct mt_changed c;
	if (b->is_told)
		return;
	if (has_wrong_tag(b)) {
		mt_report_freed_tag(t, b, mt_header_of((const void *)b->p)->tag);
		return;
	}
	c = changed_of(b);
	if (MT_UNLIKELY(c.count))
		mt_report_use_after_free(t, b, &c);
}

/* A block leaves. */
MT_INLINE void release(struct mt_thread *t, const struct mt_held *b)
{
	check(t, b);
	mt_original[MT_FAMILY_PLAIN].free((void *)b->original);
}

int mt_quarantine_add(struct mt_thread *t, const struct mt_held *block)
{
	uint64_t more = weight_of(block);
	struct mt_held oldest;
	for (int is_in = 0, has_oldest; !is_in;) {
		if (!held.capacity || (held.bytes_max && more > held.bytes_max) ||
		    !mt_lock(&held.lock))
			return -MT_EBUSY;
		has_oldest = is_over_locked(more);
		if (has_oldest && oldest_locked()->told_by == mt_rt.pid) {
			mt_unlock(&held.lock);
			return -MT_EBUSY;
		}
		if (has_oldest)
			pop_locked(&oldest);
		is_in = !is_over_locked(more);
		if (is_in)
			push_locked(block);
		mt_unlock(&held.lock);
		/* checked and freed outside of the lock: a report takes its time */
		if (has_oldest)
			release(t, &oldest);
	}
	return 0;
}

/* The oldest, unless it is being reported: 1, or 0. Not for size: a copy would call memcpy. */
MT_NOINLINE static int take_oldest(struct mt_held *ret_oldest)
{
	int has_oldest;
	if (!mt_lock(&held.lock))
		return 0;
	has_oldest = held.count && oldest_locked()->told_by != mt_rt.pid;
	if (has_oldest)
		pop_locked(ret_oldest);
	mt_unlock(&held.lock);
	return has_oldest;
}

int mt_quarantine_give_back(struct mt_thread *t, uint64_t wanted)
{
	struct mt_held oldest;
	uint32_t n = 0;
	if (wanted > __atomic_load_n(&held.bytes, __ATOMIC_RELAXED))
		return 0;
	while (n < held.capacity && take_oldest(&oldest)) { /* others may put more in meanwhile */
		release(t, &oldest);
		n++;
	}
	return n != 0;
}

static const struct mt_held *find_locked(uint64_t low, uint64_t high)
{
	for (uint32_t i = 0; i < held.capacity; i++) {
		const struct mt_held *b = &held.ring[i];
		if (b->p && b->p - mt_layout.before <= high &&
		    low < b->p + MT_MAX(b->usable, (uint64_t)1) + mt_layout.rear)
			return b;
	}
	return NULL;
}

int mt_quarantine_find_inside(uint64_t address, struct mt_held *ret_block)
{
	if (!held.count || !mt_lock(&held.lock))
		return 0;
	const struct mt_held *b = find_locked(address, address);
	if (b)
		*ret_block = *b;
	mt_unlock(&held.lock);
	return b != NULL;
}

int mt_quarantine_find(uint64_t p, struct mt_held *ret_block)
{
	return mt_quarantine_find_inside(p, ret_block) && ret_block->p == p;
}

/* The ith block, if it is there and something is wrong with it. */
static struct mt_held *find_wrong_locked(uint32_t i)
{
	uint64_t at = (uint64_t)held.first + i;
	if (i >= held.count)
		return NULL;
	struct mt_held *b = &held.ring[at < held.capacity ? at : at - held.capacity];
	/* looked at under the lock: as long as it is in the ring nobody frees it */
	return !b->is_told && b->told_by != mt_rt.pid && (has_wrong_tag(b) || changed_of(b).count)
		       ? b
		       : NULL;
}

void mt_quarantine_check_all(struct mt_thread *t)
{
	for (uint32_t i = 0; i < __atomic_load_n(&held.count, __ATOMIC_RELAXED); i++) {
		if (!mt_lock(&held.lock))
			return;
		struct mt_held *b = find_wrong_locked(i), copy;
		if (b) {
			b->told_by = mt_rt.pid; /* stays where it is meanwhile */
			copy = *b;
		}
		mt_unlock(&held.lock);
		if (!b)
			continue;
		check(t, &copy);
		__atomic_store_n(&b->is_told, 1, __ATOMIC_RELAXED);
		__atomic_store_n(&b->told_by, 0, __ATOMIC_RELEASE);
	}
}
