/* SPDX-License-Identifier: MIT */
/*
 * The library is loaded late, by dlopen, into a program that runs threads already, and closed
 * again; threads end after that. Nothing of the program changes. argv[1]: the library.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "program.h"

static pthread_barrier_t barrier;

static void *work(void *argument)
{
	void *before = malloc(500);
	pthread_barrier_wait(&barrier); /* loaded */
	pthread_barrier_wait(&barrier);
	free(before);
	void *after = malloc(600);
	pthread_barrier_wait(&barrier); /* closed */
	pthread_barrier_wait(&barrier);
	free(after);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread[8];
	pthread_barrier_init(&barrier, NULL, 9);
	for (int i = 0; i < 8; i++)
		if (pthread_create(&thread[i], NULL, work, NULL))
			fail("thread");
	pthread_barrier_wait(&barrier);
	void *library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : NULL;
	int (*count)(void *, size_t) =
		library ? (int (*)(void *, size_t))dlsym(library, "memtrack_stats_get") : NULL;
	say("loaded %s\n", argc < 2 || (library && count) ? "yes" : "no");
	for (int i = 0; i < 1000; i++)
		free(malloc((size_t)i));
	pthread_barrier_wait(&barrier);
	pthread_barrier_wait(&barrier);
	if (library)
		dlclose(library);
	pthread_barrier_wait(&barrier);
	for (int i = 0; i < 8; i++)
		pthread_join(thread[i], NULL);
	char *copy = strdup("text");
	say("done %s\n", copy);
	free(copy);
	return 0;
}
