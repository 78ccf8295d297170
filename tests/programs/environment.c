/* SPDX-License-Identifier: MIT */
/* A thread reads the environment all the time from the constructor on: it is never rewritten. */
#include <pthread.h>
#include <stdatomic.h>

#include "program.h"

static atomic_int stop, wrong;
static pthread_t thread;

static void *reader(void *argument)
{
	while (!atomic_load(&stop)) {
		const char *value = getenv("MT_TEST_WORD");
		if (!value || strcmp(value, "unchanged") != 0)
			atomic_store(&wrong, 1);
	}
	return argument;
}

__attribute__((constructor)) static void start(void)
{
	if (pthread_create(&thread, NULL, reader, NULL))
		fail("pthread_create");
}

int main(void)
{
	for (int i = 0; i < 100000; i++) {
		void *p = malloc((size_t)i % 1000);
		KEEP(p);
		free(p);
	}
	mark(1777);
	atomic_store(&stop, 1);
	pthread_join(thread, NULL);
	say("environment %s\nprocess 1777x1\n", wrong ? "changed" : "unchanged");
	return 0;
}
