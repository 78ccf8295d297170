/* SPDX-License-Identifier: MIT */
/*
 * realloc that shrinks, stays, starts from NULL, and frees with size 0; reallocarray.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * leak: shrunk count=1 bytes=100 frames=main call=realloc sites=1
 * leak: from_null count=1 bytes=33 frames=main sites=1
 * leak: array count=1 bytes=120 frames=main sites=1
 * totals: allocs=6 frees=3 bytes=5253
 * valgrind: takes realloc(p, 0) for a new block
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	char *p = malloc(4000);
	p = realloc(p, 100); /* LEAK:shrunk */
	KEEP(p);
	KEEP(realloc(NULL, 33)); /* LEAK:from_null */
	char *gone = malloc(1000);
	KEEP(gone);
	void *zero = realloc(gone, opaque_zero);
	void *array = reallocarray(NULL, 0 + opaque_zero, 8); /* AT:empty */
	free(array);
	KEEP(reallocarray(NULL, 12, 10)); /* LEAK:array */
	void *over = reallocarray(NULL, SIZE_MAX / 2 + opaque_zero, 8);
	return zero != NULL || over != NULL;
}
