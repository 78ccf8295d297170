/* SPDX-License-Identifier: MIT */
/*
 * sbrk as a heap of its own: grown twice, shrunk once.
 *
 * leak: grow heap=brk bytes=12288 frames=main
 * valgrind: does not count the break
 */
#include <unistd.h>

#include "scenario.h"

int main(void)
{
	if (sbrk(16384) == (void *)-1) /* LEAK:grow */
		return 1;
	if (sbrk(-4096) == (void *)-1)
		return 2;
	return 0;
}
