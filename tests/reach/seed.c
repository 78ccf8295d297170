/* SPDX-License-Identifier: MIT */
/* Preloaded into servers: loses seven blocks of 777 bytes before the program begins. */
#include <stdlib.h>
#include <string.h>

static void __attribute__((noinline)) lose(void)
{
	char *volatile p = malloc(777);

	if (p)
		memset(p, 1, 777);
	p = NULL;
}

static void __attribute__((noinline)) scrub(void)
{
	volatile char area[8192];

	for (size_t i = 0; i < sizeof(area); i++)
		area[i] = 0;
}

static void __attribute__((constructor)) seed(void)
{
	for (volatile int i = 0; i < 7; i++)
		lose();
	scrub();
}
