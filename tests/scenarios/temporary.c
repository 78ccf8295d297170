/* SPDX-License-Identifier: MIT */
/*
 * An allocation freed by its thread before that thread's next allocation is temporary.
 *
 * leak: frame count=1 bytes=50 frames=main
 * site: temp allocs=200 frees=200 bytes=6400 temporaries=200
 * site: pair_a allocs=50 frees=50 bytes=800 temporaries=0
 * site: pair_b allocs=50 frees=50 bytes=1200 temporaries=50
 * totals: allocs=301 frees=300 bytes=8450
 */
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	KEEP(malloc(50)); /* LEAK:frame */
	for (int i = 0; i < 200; i++) {
		void *p = malloc(32); /* AT:temp */
		KEEP(p);
		free(p);
	}
	for (int i = 0; i < 50; i++) {
		void *a = malloc(16); /* AT:pair_a */
		void *b = malloc(24); /* AT:pair_b */
		KEEP(a), KEEP(b);
		free(b);
		free(a);
	}
	return 0;
}
