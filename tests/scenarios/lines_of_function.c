/* SPDX-License-Identifier: MIT */
/*
 * Calls on different lines of one function are different sites.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * build: clang -O2 -g
 * leak: one count=1 bytes=10 frames=work,main sites=1
 * leak: two count=1 bytes=20 frames=work,main sites=1
 * leak: three count=1 bytes=30 frames=work,main sites=1
 * totals: allocs=3 frees=0 bytes=60
 */
#include <stdlib.h>

#include "scenario.h"

static NOINLINE void work(void)
{
	KEEP(malloc(10)); /* LEAK:one */
	KEEP(malloc(20)); /* LEAK:two */
	KEEP(malloc(30)); /* LEAK:three */
}

int main(void)
{
	work();
	return (int)opaque_zero;
}
