/* SPDX-License-Identifier: MIT */
/* clone(CLONE_VM | CLONE_VFORK): the child's allocations are in the parent's memory and books. */
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "program.h"

static char stack[65536] __attribute__((aligned(64)));

static int child(void *argument)
{
	free(argument);
	mark(2777);
	return 8;
}

int main(void)
{
	int status;
	mark(1777);
	void *given = mark(3777);
	int pid = clone(child, stack + sizeof(stack), CLONE_VM | CLONE_VFORK | SIGCHLD, given);
	if (pid < 0)
		fail("clone");
	waitpid(pid, &status, 0);
	mark(4777);
	say("child %d\nprocess 1777x1 2777x1 4777x1\n", WEXITSTATUS(status));
	return 0;
}
