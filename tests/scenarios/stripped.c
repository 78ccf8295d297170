/* SPDX-License-Identifier: MIT */
/*
 * A stripped program has its dynamic symbols left: exported functions are named, without lines.
 *
 * build: gcc -O1 -rdynamic -s
 * leak: exported count=2 bytes=62 frames=exported@-,main@-
 */
#include <stdlib.h>

#include "scenario.h"

void exported(void);

__attribute__((noinline)) void exported(void)
{
	KEEP(malloc(31)); /* LEAK:exported */
}

int main(void)
{
	for (int i = 0; i < 2; i++)
		exported();
	return (int)opaque_zero;
}
