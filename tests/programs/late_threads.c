/* SPDX-License-Identifier: MIT */
/*
 * BLOCKS live blocks of SIZE bytes fill the tracker's tables; then THREADS threads at a time, in
 * ROUNDS rounds, allocate and free. What was done is printed as `did ALLOCS FREES BYTES`, without
 * what the C library does for a thread.
 */
#include <pthread.h>

#include "program.h"

enum { THREADS = 100, ROUNDS = 3, EACH = 50 };

static pthread_barrier_t all;

static void *work(void *argument)
{
	for (int i = 0; i < EACH; i++) {
		char *p = malloc(100 + (size_t)i);
		if (!p)
			fail("malloc");
		KEEP(p);
		free(p);
	}
	pthread_barrier_wait(&all); /* all are there at once */
	return argument;
}

int main(int argc, char **argv)
{
	if (argc != 3)
		fail("usage: late_threads BLOCKS SIZE");
	unsigned long long blocks = strtoull(argv[1], NULL, 0), size = strtoull(argv[2], NULL, 0);
	unsigned long long threads = (unsigned long long)THREADS * ROUNDS;
	for (unsigned long long i = 0; i < blocks; i++)
		KEEP(malloc(size));
	pthread_barrier_init(&all, NULL, THREADS);
	for (int round = 0; round < ROUNDS; round++) {
		pthread_t thread[THREADS];
		for (int i = 0; i < THREADS; i++)
			if (pthread_create(&thread[i], NULL, work, NULL))
				fail("pthread_create");
		for (int i = 0; i < THREADS; i++)
			pthread_join(thread[i], NULL);
	}
	say("did %llu %llu %llu\n", blocks + threads * EACH, threads * EACH,
	    blocks * size + threads * (100 * EACH + EACH * (EACH - 1) / 2));
	return 0;
}
