/* SPDX-License-Identifier: MIT */
/* Loses a block of 100 bytes, the first that it allocates: musl takes it from a data page. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static __attribute__((noinline)) void lose(void)
{
	void *volatile p = malloc(100);
	p = NULL;
}

static __attribute__((noinline)) void wipe_stack(void)
{
	volatile char old[4096];
	memset((void *)old, 0, sizeof(old));
}

int main(void)
{
	char byte;
	lose();
	wipe_stack();
	if (write(1, "ready 1 0\n", 10) != 10)
		return 1;
	return read(0, &byte, 1) != 0;
}
