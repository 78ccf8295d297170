/* SPDX-License-Identifier: MIT */
/*
 * Parent and child leak different things; each has its own state file.
 *
 * children: 1
 * leak: before count=1 bytes=100 frames=main
 * leak: parent count=2 bytes=20 frames=main
 * leak: child count=3 bytes=90 frames=main in=child
 */
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "scenario.h"

int main(void)
{
	KEEP(malloc(100)); /* LEAK:before */
	void *shared = malloc(55);
	KEEP(shared);
	pid_t pid = fork();
	if (pid == 0) {
		for (int i = 0; i < 3; i++)
			KEEP(malloc(30)); /* LEAK:child */
		free(shared);
		_exit(0);
	}
	for (int i = 0; i < 2; i++)
		KEEP(malloc(10)); /* LEAK:parent */
	free(shared);
	int status;
	return waitpid(pid, &status, 0) != pid || status;
}
