/* SPDX-License-Identifier: MIT */
/*
 * Every aligned allocation function, its size as asked for and its alignment as promised.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * leak: posix count=1 bytes=101 frames=main call=aligned sites=1
 * leak: memalign count=1 bytes=102 frames=main call=aligned sites=1
 * leak: aligned_alloc count=1 bytes=192 frames=main call=aligned sites=1
 * leak: valloc count=1 bytes=104 frames=main call=aligned sites=1
 * leak: pvalloc count=1 frames=main call=aligned sites=1
 * valgrind: does not replace pvalloc
 */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>

#include "scenario.h"

static int wrong(const void *p, size_t alignment)
{
	return !p || (uintptr_t)p % alignment;
}

int main(void)
{
	void *p = NULL;
	int bad = posix_memalign(&p, 1024, 101); /* LEAK:posix */
	bad |= wrong(p, 1024);
	void *m = memalign(256, 102); /* LEAK:memalign */
	bad |= wrong(m, 256);
	void *a = aligned_alloc(64, 192); /* LEAK:aligned_alloc */
	bad |= wrong(a, 64);
	void *v = valloc(104); /* LEAK:valloc */
	bad |= wrong(v, 4096);
	void *w = pvalloc(105); /* LEAK:pvalloc */
	bad |= wrong(w, 4096);
	void *untouched = &bad;
	bad |= posix_memalign(&untouched, 3, 16) != EINVAL || untouched != &bad;
	KEEP(p), KEEP(m), KEEP(a), KEEP(v), KEEP(w);
	return bad;
}
