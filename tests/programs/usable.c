/* SPDX-License-Identifier: MIT */
/* malloc_usable_size: every byte it promises can be written, and is the same as in a bare run. */
#include <malloc.h>

#include "program.h"

int main(void)
{
	size_t sum = 0;
	void *block[400];
	for (size_t i = 0; i < 400; i++) {
		size_t size = i < 200 ? i : i * i;
		void *p = i % 4 == 0   ? malloc(size)
			  : i % 4 == 1 ? calloc(1, size)
			  : i % 4 == 2 ? memalign(64, size)
				       : realloc(malloc(i), size + 1);
		size_t usable = malloc_usable_size(p);
		if (!p || usable < size)
			fail("usable size");
		memset(p, 0xa5, usable);
		block[i] = p;
		sum += usable;
	}
	for (size_t i = 0; i < 400; i++)
		free(block[i]);
	mark(1777);
	say("usable %zu, of null %zu\nprocess 1777x1\n", sum, malloc_usable_size(NULL));
	return 0;
}
