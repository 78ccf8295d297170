/* SPDX-License-Identifier: MIT */
/*
 * A destructor of thread-specific data frees one block and leaks another.
 *
 * build: gcc -O1 -g -pthread
 * leak: late count=4 bytes=240 frames=destroy
 * site: value allocs=4 frees=4 bytes=320
 * foreign: any
 */
#include <pthread.h>
#include <stdlib.h>

#include "scenario.h"

static pthread_key_t key;

static void destroy(void *value)
{
	free(value);
	KEEP(malloc(60)); /* LEAK:late */
}

static void *thread_main(void *argument)
{
	pthread_setspecific(key, malloc(80)); /* AT:value */
	return NULL;
}

int main(void)
{
	pthread_key_create(&key, destroy);
	for (int i = 0; i < 4; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, thread_main, NULL) || pthread_join(thread, NULL))
			return 1;
	}
	return 0;
}
