/* SPDX-License-Identifier: MIT */
/* Threads that use freed blocks, reading and writing, and write behind blocks. Argument: rounds. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static volatile char sink;
static int rounds;

static void *work(void *number)
{
	for (int i = 0; i < rounds; i++) {
		char *volatile p = malloc(48);
		p[47] = 1;
		if (i % 3 == 0)
			p[48] = 1;
		free(p);
		if (i % 3 == 1)
			sink = p[i % 48];
		if (i % 3 == 2)
			p[i % 48] = 2;
	}
	return number;
}

int main(int argc, char **argv)
{
	pthread_t t[4];
	rounds = argc > 1 ? atoi(argv[1]) : 10;
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, work, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	puts("end");
	return 0;
}
