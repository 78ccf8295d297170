/* SPDX-License-Identifier: MIT */
/*
 * A pool reports its blocks as a heap of its own.
 *
 * leak: pool count=6 bytes=192 heap=arena frames=take,main@call
 * leak: backing count=1 bytes=4096 frames=main
 * valgrind: has no such interface
 */
#include <stdlib.h>

#include "memtrack.h"
#include "scenario.h"

static char *pool;
static size_t used;

static NOINLINE void *take(uint32_t heap)
{
	void *p = pool + used;
	used += 32;
	memtrack_heap_alloc(heap, p, 32); /* LEAK:pool */
	return p;
}

int main(void)
{
	pool = malloc(4096); /* LEAK:backing */
	uint32_t heap = memtrack_heap_register("arena");
	void *taken[8];
	for (int i = 0; i < 8; i++)
		taken[i] = take(heap); /* AT:call */
	memtrack_heap_free(heap, taken[3]);
	memtrack_heap_free(heap, taken[5]);
	return 0;
}
