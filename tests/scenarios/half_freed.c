/* SPDX-License-Identifier: MIT */
/*
 * Four threads free every second block that main allocated.
 *
 * build: gcc -O1 -g -pthread
 * leak: half count=2000 bytes=80000 frames=main sites=1
 * site: half allocs=4000 frees=2000 bytes=160000
 * foreign: any
 */
#include <pthread.h>
#include <stdlib.h>

#include "scenario.h"

enum { BLOCKS = 4000, THREADS = 4 };
static void *block[BLOCKS];

static void *thread_main(void *argument)
{
	for (int i = *(int *)argument; i < BLOCKS; i += 2 * THREADS)
		free(block[i]);
	return NULL;
}

int main(void)
{
	for (int i = 0; i < BLOCKS; i++)
		block[i] = malloc(40); /* LEAK:half */
	pthread_t thread[THREADS];
	int number[THREADS];
	for (int i = 0; i < THREADS; i++) {
		number[i] = i;
		if (pthread_create(&thread[i], NULL, thread_main, &number[i]))
			return 1;
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
