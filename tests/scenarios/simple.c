/* SPDX-License-Identifier: MIT */
/*
 * Two functions leak; every compiler and level must give the same sites.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * build: gcc -O3 -g -fomit-frame-pointer
 * build: gcc -Os -g -fno-omit-frame-pointer
 * build: gcc -O2 -g -no-pie
 * build: gcc -O2 -g -flto
 * build: gcc -O2 -g -fcf-protection=none -fno-plt
 * build: gcc -O2 -g -Wl,-z,norelro,-z,lazy
 * build: gcc -O2 -g -gz
 * build: gcc -O2 -gdwarf-4
 * build: gcc -O2 -g -gsplit-dwarf
 * build: gcc -O2 -g -gdwarf-4 -gsplit-dwarf
 * build: gcc -O2 -g -Wl,--hash-style=sysv,--build-id=none
 * build: clang -O0 -g
 * build: clang -O2 -g
 * build: clang -O3 -g -fuse-ld=bfd -no-pie
 * leak: first count=1 bytes=24 frames=make_first,main@call_first call=malloc sites=1
 * leak: second count=3 bytes=300 frames=make_second,main@call_second call=calloc sites=1
 * totals: allocs=5 frees=1 bytes=424
 */
#include <stdlib.h>

#include "scenario.h"

static NOINLINE void make_first(void)
{
	KEEP(malloc(24)); /* LEAK:first */
}

static NOINLINE void *make_second(size_t size)
{
	void *p = calloc(1, size); /* LEAK:second */
	KEEP(p);
	return p;
}

int main(void)
{
	make_first(); /* AT:call_first */
	for (volatile int i = 0; i < 4; i++) {
		void *p = make_second(100); /* AT:call_second */
		if (i == 2)
			free(p);
	}
	return 0;
}
