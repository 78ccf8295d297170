/* SPDX-License-Identifier: MIT */
/*
 * 300 frames deep with room for 256: the innermost frames are kept, main is out of reach, and two
 * callers whose stacks differ only beyond the cut are one site.
 *
 * run: --depth=256
 * leak: deep count=2 bytes=18 frames=down,down@again,down@again,down@again sites=1
 * valgrind: keeps more frames
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
	int a = down(300);
	int b = down(300);
	return a != b;
}
