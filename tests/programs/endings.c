/* SPDX-License-Identifier: MIT */
/* Ends as argv[1] says, with a mark live, one freed at exit and a thread at work. */
#include <pthread.h>
#include <signal.h>

#include "program.h"

static void *freed_at_exit;

static void at_exit(void)
{
	free(freed_at_exit);
	mark(3777);
}

static void *work(void *argument)
{
	for (;;)
		free(malloc(50 + opaque_zero));
	return argument;
}

static void *leave(void *argument)
{
	exit(21);
	return argument;
}

int main(int argc, char **argv)
{
	pthread_t thread;
	freed_at_exit = mark(2777);
	atexit(at_exit);
	mark(1777);
	if (pthread_create(&thread, NULL, work, NULL))
		fail("pthread_create");
	const char *how = argc > 1 ? argv[1] : "return";
	int handlers_run = !strcmp(how, "return") || !strcmp(how, "exit-in-thread") ||
			   !strcmp(how, "main-exits");
	say(handlers_run ? "process 1777x1 3777x1\n" : "process 1777x1 2777x1\n");
	if (!strcmp(how, "_exit"))
		_exit(20);
	if (!strcmp(how, "quick_exit"))
		quick_exit(22);
	if (!strcmp(how, "abort"))
		abort();
	if (!strcmp(how, "segv"))
		*(volatile int *)opaque_zero = 1;
	if (!strcmp(how, "kill"))
		raise(SIGKILL);
	if (!strcmp(how, "term"))
		raise(SIGTERM);
	if (!strcmp(how, "exit-in-thread")) {
		if (pthread_create(&thread, NULL, leave, NULL))
			fail("pthread_create");
		pause();
	}
	if (!strcmp(how, "main-exits")) {
		if (pthread_create(&thread, NULL, leave, NULL))
			fail("pthread_create");
		pthread_exit(NULL);
	}
	return 19;
}
