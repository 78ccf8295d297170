/* SPDX-License-Identifier: MIT */
/*
 * free(NULL) is no event.
 *
 * build: gcc -O0 -g
 * leak: one count=1 bytes=8 frames=main
 * totals: allocs=2 frees=1 bytes=16
 */
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	for (int i = 0; i < 100; i++)
		free((void *)opaque_zero);
	KEEP(malloc(8)); /* LEAK:one */
	void *p = realloc(NULL, 8);
	KEEP(p);
	free(p);
	return 0;
}
