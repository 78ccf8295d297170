/* SPDX-License-Identifier: MIT */
/* 1000 threads that have allocated once wait; memory in use goes to the file named by argv[1]. */
#include <fcntl.h>
#include <pthread.h>

#include "program.h"

enum { THREADS = 1000 };
static pthread_barrier_t ready, leave;

static void *work(void *argument)
{
	KEEP(malloc(100));
	pthread_barrier_wait(&ready);
	pthread_barrier_wait(&leave);
	return argument;
}

int main(int argc, char **argv)
{
	static char text[8192];
	pthread_attr_t attributes;
	pthread_t thread[THREADS];
	pthread_barrier_init(&ready, NULL, THREADS + 1);
	pthread_barrier_init(&leave, NULL, THREADS + 1);
	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 65536);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], &attributes, work, NULL))
			fail("pthread_create");
	pthread_barrier_wait(&ready);
	int in = open("/proc/self/status", O_RDONLY),
	    out = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ssize_t n = read(in, text, sizeof(text));
	if (n <= 0 || write(out, text, (size_t)n) != n)
		fail("status");
	pthread_barrier_wait(&leave);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	say("process\n");
	return 0;
}
