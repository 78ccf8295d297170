/* SPDX-License-Identifier: MIT */
#ifndef MT_UNWIND_STACK_H
#define MT_UNWIND_STACK_H

/*
 * Which addresses of a stack may be read. A range is a run of pages that were found readable, one
 * after the other, starting from the page that holds SP; it grows on demand and never jumps over a
 * page, so it cannot reach past a guard page into another mapping. No libc is asked: coroutine and
 * signal stacks are found the same way as a thread's own.
 */

#include "core/cc.h"

struct mt_stack_range {
	uintptr_t lo, hi; /* [lo, hi) readable when last looked at; 0, 0: nothing known */
};

/* Whether the 4 bytes at address (a multiple of 4) can be read. Asks the kernel, never faults. */
int mt_stack_probe(uintptr_t address);

/* Pages found readable during one capture: what was asked a moment ago is not asked again. */
struct mt_stack_asked {
	uint64_t capture; /* number of the capture in which the pages were asked about */
	uint32_t count;
	uintptr_t page[8];
};

/* Whether the bytes [from, to) can be read; there are a page's at most. */
int mt_stack_probe_bytes(struct mt_stack_asked *asked, uintptr_t from, uintptr_t to);

/*
 * Makes *range hold the word at address: keeps it, extends it by neighbouring pages, or replaces it
 * by the page of address. 0, or -EFAULT: not readable, *range unchanged.
 */
int mt_stack_enter(struct mt_stack_range *range, uintptr_t address);

/* Extends *range upward to hold [lo, end). 0, or -EFAULT: a page is missing, or too many to look
 * at. */
int mt_stack_reach(struct mt_stack_range *range, uintptr_t end);

MT_INLINE int mt_stack_holds(const struct mt_stack_range *range, uintptr_t address)
{
	return address >= range->lo && address < range->hi && range->hi - address >= 8;
}

/* The word at address, if the range holds it or can be extended to. 0, or -EFAULT. */
MT_INLINE int mt_stack_word(struct mt_stack_range *range, uintptr_t address, uintptr_t *ret_word)
{
	if (MT_UNLIKELY(!mt_stack_holds(range, address)) &&
	    (address < range->lo || address > UINTPTR_MAX - 8 ||
	     mt_stack_reach(range, address + 8)))
		return -14; /* EFAULT */
	*ret_word = *(const volatile uintptr_t *)address;
	return 0;
}

#endif
