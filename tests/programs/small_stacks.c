/* SPDX-License-Identifier: MIT */
/* Threads with the smallest stack that pthread gives, and with 32 KiB, allocate and free. */
#include <limits.h>
#include <pthread.h>

#include "program.h"

static void *work(void *argument)
{
	for (int i = 0; i < 100; i++) {
		void *p = malloc(100);
		KEEP(p);
		free(p);
	}
	mark(1777);
	return argument;
}

static void run(size_t stack_bytes)
{
	pthread_attr_t attributes;
	pthread_t thread;
	pthread_attr_init(&attributes);
	if (pthread_attr_setstacksize(&attributes, stack_bytes))
		fail("stack size");
	for (int i = 0; i < 20; i++)
		if (pthread_create(&thread, &attributes, work, NULL) || pthread_join(thread, NULL))
			fail("thread");
	pthread_attr_destroy(&attributes);
}

int main(void)
{
	run((size_t)sysconf(_SC_THREAD_STACK_MIN));
	run(PTHREAD_STACK_MIN);
	run(32768);
	say("process 1777x60\n");
	return 0;
}
