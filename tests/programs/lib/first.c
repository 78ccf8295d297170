/* SPDX-License-Identifier: MIT */
/*
 * A library that a program is linked with: its constructor runs before those of libraries that were
 * preloaded, an allocator's too. It allocates FIRST_BLOCKS blocks and frees each fourth.
 */
#include <stdlib.h>

enum { MOST = 400 };
void *first_block[MOST];

__attribute__((constructor)) static void allocate_first(void)
{
	const char *words = getenv("FIRST_BLOCKS");
	int count = words ? atoi(words) : 0;
	for (int i = 0; i < count && i < MOST; i++)
		first_block[i] = i % 3 ? malloc((size_t)i * i) : calloc(1, 1 + 50 * (size_t)i);
	for (int i = 0; i < count && i < MOST; i += 4) {
		free(first_block[i]);
		first_block[i] = NULL;
	}
}
