/* SPDX-License-Identifier: MIT */
/*
 * Debug information in a file of its own, found through .gnu_debuglink.
 *
 * build: gcc -O2 -g
 * after: objcopy --only-keep-debug $PROG $PROG.debug && objcopy --strip-all
 * --add-gnu-debuglink=$PROG.debug $PROG leak: inner count=1 bytes=24 frames=inner,main@call
 */
#include <stdlib.h>

#include "scenario.h"

static NOINLINE void inner(void)
{
	KEEP(malloc(24)); /* LEAK:inner */
}

int main(void)
{
	inner(); /* AT:call */
	return (int)opaque_zero;
}
