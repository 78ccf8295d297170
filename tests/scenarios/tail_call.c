/* SPDX-License-Identifier: MIT */
/*
 * make() jumps to malloc instead of calling it: the call that is on the stack is the one in user().
 *
 * build: gcc -O2 -g
 * build: clang -O2 -g
 * leak: user_line count=1 bytes=88 frames=user,main@call
 */
#include <stdlib.h>

#include "scenario.h"

static NOINLINE void *make(void)
{
	return malloc(88);
}

static NOINLINE void user(void)
{
	KEEP(make()); /* LEAK:user_line */
}

int main(void)
{
	user(); /* AT:call */
	return (int)opaque_zero;
}
