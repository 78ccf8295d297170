/* SPDX-License-Identifier: MIT */
/*
 * Words that point to things, at known addresses: says "ready table=ADDRESS function=... block=...
 * hole=..." and waits. A page that cannot be read lies behind some text, and before some.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct table {
	char text[16];
	void *words[6];
} table = {.text = "table of words."};

__attribute__((noinline)) void pointed_to(void)
{
	__asm__ volatile("nop" ::: "memory");
}

int main(void)
{
	char *pages =
		mmap(NULL, 3 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	char *block = malloc(123);
	int here = 0;

	memcpy(pages + 4096 - 16, "before the hole", 16);
	memcpy(pages + 2 * 4096, "behind the hole", 16);
	mprotect(pages + 4096, 4096, PROT_NONE);
	table.words[0] = (void *)(uintptr_t)pointed_to;
	table.words[1] = table.text + 4;
	table.words[2] = block + 5;
	table.words[3] = &here;
	table.words[4] = (void *)16;
	printf("ready table=%lx function=%lx block=%lx hole=%lx\n", (unsigned long)&table,
	       (unsigned long)pointed_to, (unsigned long)block, (unsigned long)pages + 4096);
	fflush(stdout);
	for (;;)
		pause();
}
