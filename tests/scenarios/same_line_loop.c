/* SPDX-License-Identifier: MIT */
/*
 * One line in a loop is one site however often it runs.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * leak: loop count=1000 bytes=64000 frames=main sites=1
 * totals: allocs=1000 frees=0 bytes=64000
 */
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	for (int i = 0; i < 1000; i++)
		KEEP(malloc(64)); /* LEAK:loop */
	return 0;
}
