/* SPDX-License-Identifier: MIT */
/*
 * 200 threads; the first thing that each does is to ask for its own attributes, to touch lazily
 * allocated thread-local data, or to free another thread's block.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "program.h"

enum { THREADS = 200 };
static int (*touch)(int);
static void *block[THREADS];

static void *work(void *argument)
{
	size_t number = (size_t)argument;
	pthread_attr_t attributes;
	void *stack;
	size_t bytes;
	if (number % 3 == 0 && (pthread_getattr_np(pthread_self(), &attributes) ||
				pthread_attr_getstack(&attributes, &stack, &bytes) ||
				pthread_attr_destroy(&attributes)))
		fail("attributes");
	if (number % 3 == 1 && touch(7) != 8)
		fail("thread-local data");
	free(block[number]);
	mark(1777);
	return argument;
}

int main(void)
{
	pthread_t thread[THREADS];
	void *library = dlopen("./libtls.so", RTLD_NOW);
	touch = library ? (int (*)(int))dlsym(library, "tls_touch") : NULL;
	if (!touch)
		fail("libtls.so");
	for (size_t i = 0; i < THREADS; i++) {
		block[i] = mark(2777);
		if (pthread_create(&thread[i], NULL, work, (void *)i))
			fail("thread");
	}
	for (size_t i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	say("process 1777x%d\n", THREADS);
	return 0;
}
