/* SPDX-License-Identifier: MIT */
/*
 * Blocks of size 0 are blocks: counted, live, and freed like others.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g -Wno-alloc-zero
 * leak: m count=5 bytes=0 frames=main call=malloc sites=1
 * leak: c count=1 bytes=0 frames=main call=calloc sites=1
 * totals: allocs=11 frees=5 bytes=0
 */
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	for (int i = 0; i < 10; i++) {
		void *p = malloc(opaque_zero); /* LEAK:m */
		KEEP(p);
		if (i % 2)
			free(p);
	}
	KEEP(calloc(opaque_zero, 8)); /* LEAK:c */
	return 0;
}
