/* SPDX-License-Identifier: MIT */
/* Destructors of thread-specific data free and allocate in each of the rounds that pthread makes.
 */
#include <pthread.h>

#include "program.h"

static pthread_key_t key[8];

static void destroy(void *value)
{
	int round = *(int *)value;
	free(value);
	if (round < 3) {
		int *next = malloc(3777);
		*next = round + 1;
		pthread_setspecific(key[round], next);
	} else {
		mark(1777);
	}
}

static void *work(void *argument)
{
	int *first = malloc(2777);
	*first = 0;
	pthread_setspecific(key[0], first);
	return argument;
}

int main(void)
{
	for (int i = 0; i < 8; i++)
		pthread_key_create(&key[i], destroy);
	for (int i = 0; i < 50; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, work, NULL) || pthread_join(thread, NULL))
			fail("thread");
	}
	say("process 1777x50\n");
	return 0;
}
