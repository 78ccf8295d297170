/* SPDX-License-Identifier: MIT */
/*
 * mmap as a heap of its own: partial munmap, mremap that grows, a mapping replaced by MAP_FIXED.
 *
 * leak: partial heap=mmap bytes=8192 frames=main
 * leak: grown heap=mmap bytes=131072 count=1 frames=main
 * leak: replaced heap=mmap bytes=4096 frames=main
 * leak: around heap=mmap bytes=8192 frames=main
 * valgrind: does not count mappings
 */
#include <sys/mman.h>

#include "scenario.h"

static void *map(void *at, size_t size, int flags)
{
	return mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
}
#define MAP(at, size, flags) \
	mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (flags), -1, 0)

int main(void)
{
	char *a = MAP(NULL, 16384, 0); /* LEAK:partial */
	munmap(a + 4096, 8192);
	char *b = MAP(NULL, 65536, 0);
	b = mremap(b, 65536, 131072, MREMAP_MAYMOVE); /* LEAK:grown */
	char *c = MAP(NULL, 12288, 0);                /* LEAK:around */
	char *d = MAP(c + 4096, 4096, MAP_FIXED);     /* LEAK:replaced */
	char *e = map(NULL, 4096, 0);
	munmap(e, 4096);
	return d != c + 4096 || b == MAP_FAILED;
}
