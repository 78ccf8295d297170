/* SPDX-License-Identifier: MIT */
/*
 * Calls through pointers, and malloc itself called through one.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * build: clang -O1 -g
 * leak: red count=1 bytes=21 frames=red,main@dispatch
 * leak: blue count=1 bytes=22 frames=blue,main@dispatch
 * leak: direct count=1 bytes=23 frames=main
 */
#include <stdlib.h>

#include "scenario.h"

static void red(void)
{
	KEEP(malloc(21)); /* LEAK:red */
}

static void blue(void)
{
	KEEP(malloc(22)); /* LEAK:blue */
}

static void (*const volatile table[])(void) = {red, blue};
static void *(*volatile allocate)(size_t) = malloc;

int main(void)
{
	for (int i = 0; i < 2; i++)
		table[i](); /* AT:dispatch */
	KEEP(allocate(23)); /* LEAK:direct */
	return 0;
}
