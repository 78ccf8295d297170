/* SPDX-License-Identifier: MIT */
/* Threads are cancelled while they allocate; clean-up handlers free. */
#include <pthread.h>

#include "program.h"

static void clean(void *p)
{
	free(p);
	mark(1777);
}

static void *work(void *argument)
{
	void *p = mark(2777);
	pthread_cleanup_push(clean, p);
	for (;;) {
		free(malloc(100));
		pthread_testcancel();
	}
	pthread_cleanup_pop(0);
	return argument;
}

int main(void)
{
	for (int i = 0; i < 30; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, work, NULL))
			fail("pthread_create");
		if (i % 2)
			usleep(100);
		pthread_cancel(thread);
		pthread_join(thread, NULL);
	}
	say("process 1777x30\n");
	return 0;
}
