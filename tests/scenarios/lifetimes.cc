/* SPDX-License-Identifier: MIT */
/*
 * Leaks in constructors, destructors and global objects.
 *
 * build: g++ -O0 -g
 * build: g++ -O2 -g
 * leak: construct count=3 bytes=60 frames=Leaky::Leaky
 * leak: destruct count=3 bytes=90 frames=Leaky::~Leaky
 * leak: global count=1 bytes=40
 * foreign: 1 72704
 */
#include <cstdlib>

#include "scenario.h"

struct Leaky {
	NOINLINE Leaky()
	{
		KEEP(malloc(20)); /* LEAK:construct */
		opaque_zero = 0;
	}
	NOINLINE ~Leaky()
	{
		KEEP(malloc(30)); /* LEAK:destruct */
		opaque_zero = 0;
	}
};

static Leaky global_object;
static void *global_block = malloc(40); /* LEAK:global */

static NOINLINE void scope()
{
	static Leaky function_static;
	Leaky automatic;
	KEEP(&automatic);
}

int main()
{
	KEEP(global_block);
	scope();
	return 0;
}
