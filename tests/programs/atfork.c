/* SPDX-License-Identifier: MIT */
/* Handlers of pthread_atfork allocate and free, in parent and child. */
#include <pthread.h>
#include <sys/wait.h>

#include "program.h"

static void *before;

static void prepare(void)
{
	before = mark(1777);
}

static void parent(void)
{
	free(before);
	mark(2777);
}

static void child(void)
{
	free(before);
	mark(3777);
}

int main(void)
{
	int status, good = 0;
	pthread_atfork(prepare, parent, child);
	for (int i = 0; i < 10; i++) {
		pid_t pid = fork();
		if (!pid)
			_exit(5);
		good += waitpid(pid, &status, 0) == pid && WEXITSTATUS(status) == 5;
	}
	say("good %d\nprocess 2777x10\n", good);
	for (int i = 0; i < 10; i++)
		say("process 3777x1\n");
	return 0;
}
