/* SPDX-License-Identifier: MIT */
/*
 * longjmp skips the free; frames that were jumped over must not appear in later stacks.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * build: clang -O2 -g
 * leak: lost count=5 bytes=85 frames=leaf,middle@in_middle,main@call sites=1
 * leak: after count=5 bytes=95 frames=main sites=1
 */
#include <setjmp.h>
#include <stdlib.h>

#include "scenario.h"

static jmp_buf back;

static NOINLINE void leaf(void)
{
	void *p = malloc(17); /* LEAK:lost */
	KEEP(p);
	if (!opaque_zero)
		longjmp(back, 1);
	free(p);
}

static NOINLINE void middle(void)
{
	leaf(); /* AT:in_middle */
	opaque_zero = 0;
}

int main(void)
{
	for (volatile int i = 0; i < 5; i++) {
		if (!setjmp(back))
			middle(); /* AT:call */
		KEEP(malloc(19)); /* LEAK:after */
	}
	return 0;
}
