/* SPDX-License-Identifier: MIT */
/*
 * A library without debug information between malloc and the program's line.
 *
 * build: gcc -O2 -g $OUT/libnodebug.so -Wl,-rpath,$OUT
 * lib: libnodebug.so nodebug.c -O2 -g0
 * leak: call count=3 bytes=120 frames=nodebug_make@-,main@call
 */
#include "scenario.h"

void *nodebug_make(size_t size);

int main(void)
{
	for (int i = 0; i < 3; i++)
		KEEP(nodebug_make(40)); /* LEAK:call */
	return 0;
}
