/* SPDX-License-Identifier: MIT */
/* fork: the child allocates, and frees a block of its parent; the parent's books do not change. */
#include <sys/wait.h>

#include "program.h"

int main(void)
{
	int status;
	void *of_parent = mark(1777);
	mark(2777);
	pid_t pid = fork();
	if (pid < 0)
		fail("fork");
	if (!pid) {
		free(of_parent);
		mark(3777);
		void *p = mark(4777);
		p = realloc(p, 45777);
		KEEP(p);
		pid_t grandchild = fork();
		if (!grandchild) {
			free(p);
			mark(5777);
			exit(4);
		}
		waitpid(grandchild, &status, 0);
		say("grandchild %d\n", WEXITSTATUS(status));
		exit(3);
	}
	waitpid(pid, &status, 0);
	say("child %d\n", WEXITSTATUS(status));
	say("process 1777x1 2777x1\nprocess 3777x1 45777x1\nprocess 5777x1\n");
	return 0;
}
