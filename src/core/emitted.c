/* SPDX-License-Identifier: MIT */
/*
 * The four functions that compilers call on their own, for a large struct that is copied, cleared
 * or compared, even in freestanding code. Only the preload image has them, hidden; the link-time
 * door lies in a program that has a C library. Our own code says mt_mem_copy() and its fellows.
 */
#include "core/cc.h"

/* Hidden in our image; the prototypes are the compiler's. */
MT_HIDDEN void *memcpy(void *restrict to, const void *restrict from, size_t len);
MT_HIDDEN void *memmove(void *to, const void *from, size_t len);
MT_HIDDEN void *memset(void *to, int byte, size_t len);
MT_HIDDEN int memcmp(const void *a, const void *b, size_t len);

void *memcpy(void *restrict to, const void *restrict from, size_t len)
{
	char *t = to;
	const char *f = from;

	for (size_t i = 0; i < len; i++)
		t[i] = f[i];
	return to;
}

void *memmove(void *to, const void *from, size_t len)
{
	char *t = to;
	const char *f = from;

	if ((uintptr_t)t - (uintptr_t)f >= len)
		return memcpy(to, from, len);
	while (len--)
		t[len] = f[len];
	return to;
}

void *memset(void *to, int byte, size_t len)
{
	char *t = to;

	for (size_t i = 0; i < len; i++)
		t[i] = (char)byte;
	return to;
}

int memcmp(const void *a, const void *b, size_t len)
{
	const unsigned char *x = a, *y = b;

	for (size_t i = 0; i < len; i++)
		if (x[i] != y[i])
			return x[i] < y[i] ? -1 : 1;
	return 0;
}
