/* SPDX-License-Identifier: MIT */
/*
 * Reserves much, touches little of it, and keeps pointers to some of its blocks there: the others
 * are lost. Prints a line when that is done; ends with its input, or by an alarm.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LIFE_S = 120, BLOCKS = 600, BLOCK_BYTES = 3000 };
#define RESERVED_BYTES ((size_t)30 << 30)

static char *reserved;

static void *block(void)
{
	void *p = malloc(BLOCK_BYTES);

	if (!p)
		exit(3);
	return memset(p, 1, BLOCK_BYTES);
}

int main(void)
{
	char byte;

	alarm(LIFE_S);
	reserved = mmap(NULL, RESERVED_BYTES, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (reserved == MAP_FAILED)
		return 3;
	for (size_t i = 0; i < BLOCKS; i++) {
		void *p = block();

		/* each in a page of its own, all over */
		if (i % 3)
			*(void **)(reserved + RESERVED_BYTES / BLOCKS / 4096 * 4096 * i) = p;
	}
	puts("ready");
	fflush(stdout);
	return read(0, &byte, 1) < 0;
}
