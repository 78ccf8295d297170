/* SPDX-License-Identifier: MIT */
/*
 * A fully stripped program: only module and count are known, and are right.
 *
 * build: gcc -O1 -s
 * leak: nameless count=7 bytes=217 frames=*@-
 */
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	for (int i = 0; i < 7; i++)
		KEEP(malloc(31)); /* LEAK:nameless */
	return 0;
}
