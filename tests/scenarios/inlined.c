/* SPDX-License-Identifier: MIT */
/*
 * Three levels of inlining are three frames, each with its own line.
 *
 * build: gcc -O2 -g
 * build: gcc -O3 -g -flto
 * build: clang -O2 -g
 * leak: innermost count=2 bytes=42 frames=innermost,middle@middle_line,outer@outer_line,main@call
 * sites=1
 */
#include <stdlib.h>

#include "scenario.h"

static ALWAYS_INLINE void *innermost(size_t size)
{
	return malloc(size + 1); /* LEAK:innermost */
}

static ALWAYS_INLINE void *middle(size_t size)
{
	return innermost(size * 2); /* AT:middle_line */
}

static NOINLINE void outer(size_t size)
{
	KEEP(middle(size)); /* AT:outer_line */
}

int main(void)
{
	for (size_t i = 0; i < 2 + opaque_zero; i++)
		outer(10); /* AT:call */
	return 0;
}
