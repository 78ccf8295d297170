/* SPDX-License-Identifier: MIT */
/* Four threads hold 4000000 bytes together, three times, and give them back to each other to free.
 */
#include <pthread.h>

#include "program.h"

enum { THREADS = 4, BLOCKS = 1000, BYTES = 1000 };
static void *block[THREADS][BLOCKS];
static pthread_barrier_t barrier;

static void *work(void *argument)
{
	size_t me = (size_t)argument;
	for (int round = 0; round < 3; round++) {
		for (int i = 0; i < BLOCKS; i++)
			block[me][i] = malloc(BYTES);
		pthread_barrier_wait(&barrier);
		for (int i = 0; i < BLOCKS; i++)
			free(block[(me + 1) % THREADS][i]);
		pthread_barrier_wait(&barrier);
	}
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];
	pthread_barrier_init(&barrier, NULL, THREADS);
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)i))
			fail("pthread_create");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	say("process\n");
	return 0;
}
