/* SPDX-License-Identifier: MIT */
/* What is left of the blocks of libfirst.so: a half is freed, "BLOCKS BYTES" of the others said. */
#include <malloc.h>

#include "program.h"

enum { MOST = 400 };
extern void *first_block[MOST];

int main(void)
{
	size_t count = 0, bytes = 0;
	for (int i = 0; i < MOST; i++) {
		if (i & 1) {
			free(first_block[i]);
		} else if (first_block[i]) {
			count++;
			bytes += malloc_usable_size(first_block[i]);
		}
	}
	say("%d %d\n", (int)count, (int)bytes);
	return 0;
}
