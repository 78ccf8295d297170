/* SPDX-License-Identifier: MIT */
/* Holds blocks of many sizes. Says the addresses of a small and of a large one, and waits. */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 20000, SIZE_MAX_BYTES = 1500, LARGE_BYTES = 3 << 20 };

static char *volatile block[BLOCKS];

int main(void)
{
	char *volatile large = malloc(LARGE_BYTES);

	memset(large, 1, LARGE_BYTES);
	for (int i = 0; i < BLOCKS; i++) {
		block[i] = malloc((size_t)i % SIZE_MAX_BYTES + 1);
		memset(block[i], 1, (size_t)i % SIZE_MAX_BYTES + 1);
	}
	printf("ready %lx %lx\n", (unsigned long)block[BLOCKS / 2], (unsigned long)large);
	fflush(stdout);
	pause();
	return 0;
}
