/* SPDX-License-Identifier: MIT */
/* 200 forks while four threads allocate: no child hangs, each has its own books. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include "program.h"

enum { THREADS = 4, ROUNDS = 200 };
static atomic_int stop;

static void *work(void *argument)
{
	unsigned seed = (unsigned)(size_t)argument;
	void *p[64] = {0};
	while (!atomic_load(&stop)) {
		seed = seed * 1103515245 + 12345;
		unsigned i = seed >> 16 & 63;
		free(p[i]);
		p[i] = malloc(seed >> 20 & 1023);
	}
	for (int i = 0; i < 64; i++)
		free(p[i]);
	return NULL;
}

int main(void)
{
	pthread_t thread[THREADS];
	int good = 0;
	for (size_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(i + 1)))
			fail("pthread_create");
	for (int i = 0; i < ROUNDS; i++) {
		pid_t pid = fork();
		if (pid < 0)
			fail("fork");
		if (!pid) {
			mark(777);
			free(mark(1777));
			_exit(7);
		}
		int status;
		good += waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
			WEXITSTATUS(status) == 7;
	}
	atomic_store(&stop, 1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	say("good %d\nprocess\n", good);
	for (int i = 0; i < ROUNDS; i++)
		say("process 777x1\n");
	return 0;
}
