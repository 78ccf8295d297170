/* SPDX-License-Identifier: MIT */
/* 10000 threads, one after the other and in small crowds; each hundredth leaks. */
#include <pthread.h>

#include "program.h"

enum { CROWD = 10, ROUNDS = 1000 };

static void *work(void *argument)
{
	void *p = malloc(64);
	KEEP(p);
	free(p);
	if ((size_t)argument % 100 == 0)
		mark(1777);
	return NULL;
}

int main(void)
{
	pthread_t thread[CROWD];
	for (size_t round = 0; round < ROUNDS; round++) {
		for (size_t i = 0; i < CROWD; i++)
			if (pthread_create(&thread[i], NULL, work, (void *)(round * CROWD + i)))
				fail("pthread_create");
		for (size_t i = 0; i < CROWD; i++)
			pthread_join(thread[i], NULL);
	}
	say("process 1777x100\n");
	return 0;
}
