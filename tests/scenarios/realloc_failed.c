/* SPDX-License-Identifier: MIT */
/*
 * A realloc that fails leaves the block, its size and its site as they were.
 *
 * build: gcc -O0 -g -Wno-alloc-size-larger-than
 * build: gcc -O2 -g -Wno-alloc-size-larger-than
 * leak: block count=1 bytes=40 frames=main call=malloc sites=1
 * totals: allocs=1 frees=0 bytes=40
 * valgrind: counts failed calls
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	char *p = malloc(40); /* LEAK:block */
	KEEP(p);
	errno = 0;
	void *q = realloc(p, SIZE_MAX / 2 + opaque_zero);
	return q != NULL || errno != ENOMEM;
}
