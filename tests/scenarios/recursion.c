/* SPDX-License-Identifier: MIT */
/*
 * 200 frames deep with room for 256: the stack reaches main. (The bottom of a deeper one is cut.)
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g -fno-optimize-sibling-calls
 * run: --depth=256
 * leak: deep count=1 bytes=9 frames=down,down@again,...,main@call sites=1
 */
#include <stdlib.h>

#include "scenario.h"

static NOINLINE int down(int depth)
{
	if (!depth) {
		KEEP(malloc(9)); /* LEAK:deep */
		return 0;
	}
	return down(depth - 1) + 1; /* AT:again */
}

int main(void)
{
	return down(200) != 200; /* AT:call */
}
