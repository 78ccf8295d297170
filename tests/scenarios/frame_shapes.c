/* SPDX-License-Identifier: MIT */
/*
 * Frames that need more than a constant offset: variable arrays, realigned stacks, large frames.
 *
 * build: gcc -O0 -g -Wno-vla
 * build: gcc -O2 -g
 * build: gcc -O2 -g -mavx2
 * build: clang -O2 -g
 * leak: variable count=3 bytes=36 frames=variable_array,main@call_variable sites=1
 * leak: realigned count=3 bytes=39 frames=realigned,main@call_realigned sites=1
 * leak: large count=3 bytes=42 frames=large_frame,main@call_large sites=1
 */
#include <stdlib.h>
#include <string.h>

#include "scenario.h"

static NOINLINE void variable_array(int count)
{
	volatile char array[count];
	for (int i = 0; i < count; i++)
		array[i] = (char)i;
	KEEP(malloc(12)); /* LEAK:variable */
	opaque_zero = (size_t)array[0];
}

static NOINLINE void realigned(void)
{
	_Alignas(128) volatile char array[256];
	array[0] = 0;
	KEEP(malloc(13)); /* LEAK:realigned */
	opaque_zero = (size_t)array[0];
}

static NOINLINE void large_frame(void)
{
	volatile char array[300000];
	array[0] = array[299999] = 0;
	KEEP(malloc(14)); /* LEAK:large */
	opaque_zero = (size_t)array[0];
}

int main(void)
{
	for (int i = 1; i <= 3 + (int)opaque_zero; i++) {
		variable_array(i * 1000); /* AT:call_variable */
		realigned();              /* AT:call_realigned */
		large_frame();            /* AT:call_large */
	}
	return 0;
}
