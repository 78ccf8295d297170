/* SPDX-License-Identifier: MIT */
/* A child handler of pthread_atfork allocates first thing; the child goes on with those blocks. */
#include <pthread.h>
#include <sys/wait.h>

#include "program.h"

enum { BLOCKS = 100, LATER = 50 };

static void *of_handler[BLOCKS], *later[LATER];

static void child(void)
{
	for (int i = 0; i < BLOCKS; i++)
		of_handler[i] = mark(1777);
}

int main(void)
{
	int status;
	pthread_atfork(NULL, NULL, child);
	free(malloc(10));
	pid_t pid = fork();
	if (!pid) {
		for (int i = 0; i < BLOCKS; i++)
			free(of_handler[i]);
		for (int i = 0; i < LATER; i++)
			later[i] = mark(2777);
		_exit(5);
	}
	if (waitpid(pid, &status, 0) != pid)
		fail("waitpid");
	say("child %d\nprocess\nprocess 2777x50\n", WEXITSTATUS(status));
	_exit(0);
}
