/* SPDX-License-Identifier: MIT */
/* The library that comes and goes. */
#include <stdlib.h>

void *soak_make(size_t size);

__attribute__((constructor)) static void begin(void)
{
	void *volatile p = malloc(33);

	free(p);
}

void *soak_make(size_t size)
{
	void *volatile p =
		malloc(size); /* no tail call: the library's frame must be in the stacks */

	return p;
}
