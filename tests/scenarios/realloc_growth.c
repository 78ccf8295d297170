/* SPDX-License-Identifier: MIT */
/*
 * A growing buffer belongs to the last realloc; the malloc that began it holds nothing.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * leak: grow count=1 bytes=2097152 frames=main call=realloc sites=1
 * site: begin allocs=1 frees=1 bytes=16
 * site: grow allocs=17 frees=16 bytes=4194272
 * totals: allocs=18 frees=17 bytes=4194288
 */
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	size_t size = 16;
	char *p = malloc(size); /* AT:begin */
	while (size < 2097152) {
		size *= 2;
		char *q = realloc(p, size); /* LEAK:grow */
		if (!q)
			return 1;
		p = q;
	}
	KEEP(p);
	return 0;
}
