/* SPDX-License-Identifier: MIT */
/* A program that can be built with and without the source interface. It loses 100 blocks of 64
 * bytes. */
#include "memory.h"
#include <stdio.h>

static int *make(int value)
{
	int *p = malloc(64);

	if (p)
		*p = value;
	return p;
}

int main(void)
{
	int sum = 0;

	for (int i = 0; i < 100; i++) {
		int *volatile p = make(i);
		sum += p ? *p : 0;
	}
#ifdef ENABLE_MEMTRACK
	puts("tracked: yes");
	printf("control %d\n", memtrack_control("label=main"));
#else
	puts("tracked: no");
#endif
	printf("sum %d\n", sum);
	return 0;
}
