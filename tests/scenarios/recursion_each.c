/* SPDX-License-Identifier: MIT */
/*
 * A leak at each of 20 depths is 20 sites of one line.
 *
 * leak: each count=20 bytes=640 frames=down,...,main sites=20
 */
#include <stdlib.h>

#include "scenario.h"

static NOINLINE int down(int depth)
{
	KEEP(malloc(32));                           /* LEAK:each */
	return depth > 1 ? down(depth - 1) + 1 : 1; /* AT:again */
}

int main(void)
{
	return down(20) != 20;
}
