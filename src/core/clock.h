/* SPDX-License-Identifier: MIT */
#ifndef MT_CORE_CLOCK_H
#define MT_CORE_CLOCK_H

/*
 * The processor's time-stamp counter, read in user mode (about 10 ns). Its frequency is not known
 * here: the state file holds pairs of (ticks, CLOCK_MONOTONIC) from which a reader computes it.
 */

#include "core/cc.h"

MT_INLINE uint64_t mt_clock_ticks(void)
{
#if defined(__x86_64__)
	uint32_t lo, hi;
	__asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
	return (uint64_t)hi << 32 | lo;
#else
	uint64_t t;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(t));
	return t;
#endif
}

/* Shift that makes one coarse time unit of roughly half a millisecond to four milliseconds. */
MT_INLINE uint32_t mt_clock_unit_shift(void)
{
#if defined(__x86_64__)
	return 21; /* 2^21 cycles: 0.5 ms at 4 GHz, 2.1 ms at 1 GHz */
#else
	uint64_t hz;
	__asm__ volatile("mrs %0, cntfrq_el0" : "=r"(hz));
	uint32_t shift = 1;
	while (shift < 30 && (hz >> (shift + 1)) > 1000)
		shift++;
	return shift;
#endif
}

#endif
