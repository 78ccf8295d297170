/* SPDX-License-Identifier: MIT */
#ifndef MT_CORE_MEM_H
#define MT_CORE_MEM_H

/* Memory and strings for code that may not call libc. Async-signal-safe. */

#include "core/cc.h"

MT_INLINE void mt_mem_copy(void *to, const void *from, size_t len)
{
	unsigned char *t = to;
	const unsigned char *f = from;
	/* volatile-free loops become calls to memcpy; the barrier keeps them loops. */
	for (; len >= 8; t += 8, f += 8, len -= 8) {
		uint64_t word;
		__builtin_memcpy(&word, f, 8);
		__builtin_memcpy(t, &word, 8);
		__asm__ volatile("" ::: "memory");
	}
	for (size_t i = 0; i < len; i++) {
		t[i] = f[i];
		__asm__ volatile("" ::: "memory");
	}
}

MT_INLINE void mt_mem_zero(void *to, size_t len)
{
	unsigned char *t = to;
	for (size_t i = 0; i < len; i++) {
		t[i] = 0;
		__asm__ volatile("" ::: "memory");
	}
}

MT_INLINE int mt_mem_equal(const void *a, const void *b, size_t len)
{
	const unsigned char *x = a, *y = b;
	for (size_t i = 0; i < len; i++)
		if (x[i] != y[i])
			return 0;
	return 1;
}

MT_INLINE size_t mt_str_len(const char *s)
{
	size_t n = 0;
	while (s[n]) {
		n++;
		__asm__ volatile("" ::: "memory");
	}
	return n;
}

MT_INLINE int mt_str_equal(const char *a, const char *b)
{
	while (*a && *a == *b)
		a++, b++;
	return *a == *b;
}

MT_INLINE int mt_str_starts(const char *s, const char *prefix)
{
	while (*prefix)
		if (*s++ != *prefix++)
			return 0;
	return 1;
}

#endif
