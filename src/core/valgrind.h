/* SPDX-License-Identifier: MIT */
#ifndef MT_CORE_VALGRIND_H
#define MT_CORE_VALGRIND_H

#include "core/cc.h"

/*
 * 1 when the code runs inside Valgrind, else 0. Asked with Valgrind's client request 0x1001:
 * rotations that change nothing on a processor and mean a question to Valgrind, which replaces the
 * result register. Async-signal-safe, costs a few cycles.
 */
MT_INLINE int mt_under_valgrind(void)
{
	uint64_t request[6] = {0x1001, 0, 0, 0, 0, 0};
#if defined(__x86_64__)
	uint64_t result = 0;
	__asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\t"
			 "rolq $61, %%rdi\n\trolq $51, %%rdi\n\t"
			 "xchgq %%rbx, %%rbx"
			 : "+d"(result)
			 : "a"(request)
			 : "cc", "memory", "rdi");
	return result != 0;
#elif defined(__aarch64__)
	register uint64_t result __asm__("x3") = 0;
	register uint64_t *ask __asm__("x4") = request;
	__asm__ volatile("ror x12, x12, #3\n\tror x12, x12, #13\n\t"
			 "ror x12, x12, #51\n\tror x12, x12, #61\n\t"
			 "orr x10, x10, x10"
			 : "+r"(result)
			 : "r"(ask)
			 : "cc", "memory", "x12");
	return result != 0;
#else
	(void)request;
	return 0;
#endif
}

#endif
