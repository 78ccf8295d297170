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

/* Words at any address. */
typedef uint64_t __attribute__((aligned(1), may_alias)) mt_word;

/* Blocks of any size, fast. They may not overlap. */
MT_INLINE void mt_mem_copy_block(void *to, const void *from, size_t len)
{
#if defined(__x86_64__)
	__asm__ volatile("rep movsb" : "+D"(to), "+S"(from), "+c"(len) : : "memory");
#else
	size_t i = 0;
	for (; i + 8 <= len; i += 8) {
		*(mt_word *)((char *)to + i) = *(const mt_word *)((const char *)from + i);
		__asm__ volatile("" ::: "memory");
	}
	mt_mem_copy((char *)to + i, (const char *)from + i, len - i);
#endif
}

MT_INLINE void mt_mem_fill(void *to, uint8_t byte, size_t len)
{
	uint64_t word = byte * 0x0101010101010101u;
	size_t i = 0;
#if defined(__x86_64__)
	if (len >= 256) { /* starting it costs more than a few stores */
		__asm__ volatile("rep stosb" : "+D"(to), "+c"(len) : "a"(byte) : "memory");
		return;
	}
#endif
	mt_word *at = to;
	if (len >= 32) {
		/* these lie over the ones before */
		mt_word *last = (mt_word *)((char *)to + len - 32);
		for (; at < last; at += 4) {
			at[0] = word;
			at[1] = word;
			at[2] = word;
			at[3] = word;
			__asm__ volatile("" ::: "memory");
		}
		last[0] = word;
		last[1] = word;
		last[2] = word;
		last[3] = word;
		return;
	}
	for (; i + 8 <= len; i += 8) {
		*at++ = word;
		__asm__ volatile("" ::: "memory");
	}
	for (; i < len; i++) {
		((unsigned char *)to)[i] = byte;
		__asm__ volatile("" ::: "memory");
	}
}

/* 1: four words are all this one. */
MT_INLINE int mt_words_are(const mt_word *w, uint64_t word)
{
	return MT_LIKELY(w[0] == word) && MT_LIKELY(w[1] == word) && MT_LIKELY(w[2] == word) &&
	       MT_LIKELY(w[3] == word);
}

/* Offset of the first of len bytes that is another, or len. */
MT_INLINE size_t mt_mem_differs(const void *p, uint8_t byte, size_t len)
{
	const unsigned char *at = p;
	uint64_t word = byte * 0x0101010101010101u;
	size_t i = 0;
	if (len >= 32) {
		const mt_word *w = p, *last = (const mt_word *)(at + len - 32);
		while (w < last && mt_words_are(w, word))
			w += 4;
		if (MT_LIKELY(w >= last) && mt_words_are(last, word))
			return len;
		/* a difference lies in what is left of these; what is before it is not */
		i = (size_t)((const unsigned char *)MT_MIN(w, last) - at);
	}
	while (i + 8 <= len && *(const mt_word *)(at + i) == word)
		i += 8;
	while (i < len && at[i] == byte)
		i++;
	return i;
}

#endif
