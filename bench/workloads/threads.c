/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate once and then wait: what the tracker keeps for each.
 *
 *   threads COUNT
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

enum { STACK_BYTES = 64 << 10 };

static pthread_barrier_t all_there;

static void *wait_for_all(void *argument)
{
	void *volatile block = malloc(64);

	free(block);
	pthread_barrier_wait(&all_there);
	return argument;
}

int main(int argc, char **argv)
{
	unsigned count = argc == 2 ? (unsigned)atoi(argv[1]) : 0;
	pthread_t *id = calloc(count + 1, sizeof(*id));
	pthread_attr_t attributes;

	if (!count || !id) {
		fprintf(stderr, "usage: threads COUNT\n");
		return 2;
	}
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, STACK_BYTES);
	pthread_barrier_init(&all_there, NULL, count + 1);
	for (unsigned i = 0; i < count; i++)
		if (pthread_create(&id[i], &attributes, wait_for_all, NULL))
			return 1;
	pthread_barrier_wait(&all_there);
	for (unsigned i = 0; i < count; i++)
		pthread_join(id[i], NULL);
	free(id);
	return 0;
}
