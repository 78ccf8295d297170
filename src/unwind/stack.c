/* SPDX-License-Identifier: MIT */
/*
 * Pages are asked for one by one with FUTEX_WAIT and a time limit of zero: the kernel must read the
 * word to compare it, says EFAULT when it cannot, and is permitted under every seccomp filter that
 * lets threads work. The answer is kept, so a page costs one system call per thread and stack.
 */

#include "unwind/stack.h"

#include "core/sys.h"
#include "unwind/capture.h"

enum {
	PAGE = 4096,         /* probing step; a multiple of it on every kernel */
	REACH_PAGES = 16384, /* 64 MiB in one step: larger frames are not real */
	DOWN_PAGES = 512,    /* growth of a known stack between two captures */
	FUTEX_WAIT_PRIVATE = 128,
	UNLIKELY_WORD = 0x6d747072,
};

int mt_stack_probe(uintptr_t address)
{
	struct mt_timespec now = {0, 0};
	if (MT_UNLIKELY(mt_unwind.no_calls))
		return 0;
	long r = mt_sys6(__NR_futex, (long)address, FUTEX_WAIT_PRIVATE, UNLIKELY_WORD, (long)&now,
			 0, 0);
	return r != -MT_EFAULT && r != -MT_EINVAL;
}

static int probe_page(struct mt_stack_asked *asked, uintptr_t address)
{
	uintptr_t page = address & ~(uintptr_t)(PAGE - 1);
	for (uint32_t i = 0; i < asked->count && i < MT_ARRAY_LEN(asked->page); i++)
		if (asked->page[i] == page)
			return 1;
	if (!mt_stack_probe(address & ~(uintptr_t)3))
		return 0;
	asked->page[asked->count++ % MT_ARRAY_LEN(asked->page)] = page;
	return 1;
}

int mt_stack_probe_bytes(struct mt_stack_asked *asked, uintptr_t from, uintptr_t to)
{
	return probe_page(asked, from) && probe_page(asked, to - 1);
}

int mt_stack_reach(struct mt_stack_range *range, uintptr_t end)
{
	uintptr_t hi = range->hi;
	if (!hi || end < range->lo || (end > hi && end - hi > (uintptr_t)REACH_PAGES * PAGE))
		return -MT_EFAULT;
	while (hi < end) {
		if (!mt_stack_probe(hi))
			return -MT_EFAULT;
		hi += PAGE;
		range->hi = hi; /* what was found stays known */
	}
	return 0;
}

int mt_stack_enter(struct mt_stack_range *range, uintptr_t address)
{
	uintptr_t page = address & ~(uintptr_t)(PAGE - 1);
	if (mt_stack_holds(range, address))
		return 0;
	if (address > UINTPTR_MAX - 2 * PAGE || !mt_stack_probe(address & ~(uintptr_t)3))
		return -MT_EFAULT;
	if (range->lo && page < range->lo && (range->lo - page) / PAGE <= DOWN_PAGES) {
		uintptr_t lo = range->lo;
		while (lo > page && mt_stack_probe(lo - PAGE))
			lo -= PAGE;
		if (lo == page) {
			range->lo = page;
			return 0;
		}
	}
	if (range->hi && page == range->hi) {
		range->hi += PAGE;
	} else {
		range->lo = page;
		range->hi = page + PAGE;
	}
	return mt_stack_holds(range, address) ? 0 : mt_stack_reach(range, address + 8);
}
