/* SPDX-License-Identifier: MIT */
/*
 * memtrack.h with ENABLE_MEMTRACK: file and line come from the source, without debug information.
 *
 * build: gcc -O1
 * build: gcc -O2 -s
 * leak: m count=1 bytes=11
 * leak: c count=1 bytes=24
 * leak: r count=1 bytes=50
 * leak: d count=1 bytes=7
 * leak: n count=1 bytes=4
 * totals: allocs=8 frees=3 bytes=206
 * valgrind: has no such interface
 */
#include <stdlib.h>
#include <string.h>

#define ENABLE_MEMTRACK
#include "memtrack.h"
#include "scenario.h"

int main(void)
{
	KEEP(malloc(11));   /* LEAK:m */
	KEEP(calloc(3, 8)); /* LEAK:c */
	char *p = malloc(10);
	p = realloc(p, 50); /* LEAK:r */
	KEEP(p);
	KEEP(strdup("string"));     /* LEAK:d */
	KEEP(strndup("string", 3)); /* LEAK:n */
	void *q = malloc(75 + 25 * opaque_zero);
	KEEP(q);
	free(q);
	void *s = calloc(5, 5);
	KEEP(s);
	free(s);
	return 0;
}
