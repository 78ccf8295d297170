/* SPDX-License-Identifier: MIT */
/* The library that comes and goes. */
#include <stdlib.h>

void *soak_make(size_t size);

static void *volatile last; /* no tail calls: the library's frame must be in the stacks */

__attribute__((constructor)) static void begin(void)
{
	last = malloc(33);
	free(last);
}

void *soak_make(size_t size)
{
	void *p = malloc(size);
	last = p;
	return p;
}
