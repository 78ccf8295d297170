/* SPDX-License-Identifier: MIT */
/*
 * A static program that was linked with --wrap, and with the table of unwind information that gcc
 * leaves out of static programs.
 *
 * build: gcc -O1 -g -static -Wl,--eh-frame-hdr
 * -Wl,--wrap=malloc,--wrap=free,--wrap=calloc,--wrap=realloc $LIB/libmemtrack-wrap.a needs:
 * libmemtrack-wrap.a leak: inner count=4 bytes=400 frames=inner,main@call leak: zeroed count=1
 * bytes=70 frames=main foreign: any valgrind: a static program's malloc cannot be replaced
 */
#include <stdlib.h>

#include "scenario.h"

static NOINLINE void *inner(void)
{
	void *p = malloc(100); /* LEAK:inner */
	KEEP(p);
	return p;
}

int main(void)
{
	for (int i = 0; i < 5; i++) {
		void *p = inner(); /* AT:call */
		if (i == 1)
			free(p);
	}
	KEEP(calloc(7, 10)); /* LEAK:zeroed */
	return 0;
}
