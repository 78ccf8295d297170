/* SPDX-License-Identifier: MIT */
/*
 * A thread leaks and ends; its blocks stay and are found at its function.
 *
 * build: gcc -O1 -g -pthread
 * build: clang -O2 -g -pthread
 * leak: own count=30 bytes=3000 frames=body,...,thread_main
 * foreign: any
 */
#include <pthread.h>
#include <stdlib.h>

#include "scenario.h"

static NOINLINE void body(void)
{
	for (int i = 0; i < 10; i++)
		KEEP(malloc(100)); /* LEAK:own */
}

static NOINLINE void *thread_main(void *argument)
{
	body();
	return argument;
}

int main(void)
{
	for (int i = 0; i < 3; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, thread_main, NULL) || pthread_join(thread, NULL))
			return 1;
	}
	return 0;
}
