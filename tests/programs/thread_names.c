/* SPDX-License-Identifier: MIT */
/* Threads name themselves before and after they first allocate. */
#include <pthread.h>

#include "program.h"

static void *early(void *argument)
{
	pthread_setname_np(pthread_self(), "named-early");
	mark(1777);
	return argument;
}

static void *late(void *argument)
{
	mark(2777);
	pthread_setname_np(pthread_self(), "named-late");
	for (int i = 0; i < 1000; i++)
		free(malloc(100 + opaque_zero));
	return argument;
}

int main(void)
{
	pthread_t a, b;
	if (pthread_create(&a, NULL, early, NULL) || pthread_create(&b, NULL, late, NULL))
		fail("pthread_create");
	pthread_join(a, NULL);
	pthread_join(b, NULL);
	say("process 1777x1 2777x1\n");
	return 0;
}
