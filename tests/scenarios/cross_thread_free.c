/* SPDX-License-Identifier: MIT */
/*
 * Main allocates, a thread frees every block; the thread's own block is freed by main.
 *
 * build: gcc -O1 -g -pthread
 * leak: kept count=1 bytes=7 frames=main
 * site: given allocs=500 frees=500 bytes=24000
 * site: back allocs=1 frees=1 bytes=333
 * foreign: any
 */
#include <pthread.h>
#include <stdlib.h>

#include "scenario.h"

enum { BLOCKS = 500 };
static void *block[BLOCKS];

static void *thread_main(void *argument)
{
	for (int i = 0; i < BLOCKS; i++)
		free(block[i]);
	void *back = malloc(333); /* AT:back */
	KEEP(back);
	return back;
}

int main(void)
{
	for (int i = 0; i < BLOCKS; i++)
		block[i] = malloc(48); /* AT:given */
	KEEP(malloc(7));               /* LEAK:kept */
	pthread_t thread;
	void *back;
	if (pthread_create(&thread, NULL, thread_main, NULL) || pthread_join(thread, &back))
		return 1;
	free(back);
	return 0;
}
