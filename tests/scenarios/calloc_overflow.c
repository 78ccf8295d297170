/* SPDX-License-Identifier: MIT */
/*
 * calloc whose product overflows fails and records nothing; one that fits is cleared.
 *
 * build: gcc -O0 -g -Wno-alloc-size-larger-than
 * build: gcc -O2 -g -Wno-alloc-size-larger-than
 * leak: good count=1 bytes=77 frames=main call=calloc sites=1
 * totals: allocs=1 frees=0 bytes=77
 * valgrind: does not set errno
 */
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	errno = 0;
	void *over = calloc(SIZE_MAX / 4 + opaque_zero, 16);
	if (over || errno != ENOMEM)
		return 1;
	unsigned char *p = calloc(7, 11); /* LEAK:good */
	KEEP(p);
	for (int i = 0; i < 77; i++)
		if (p[i])
			return 2;
	return 0;
}
