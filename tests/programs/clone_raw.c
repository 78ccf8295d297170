/* SPDX-License-Identifier: MIT */
/* A raw clone(SIGCHLD) goes around every fork hook: the child must still not write the parent's
 * books. */
#include <sched.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "program.h"

int main(void)
{
	int status;
	void *of_parent = mark(1777);
	long pid = syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
	if (pid < 0)
		fail("clone");
	if (!pid) {
		free(of_parent);
		for (int i = 0; i < 100; i++)
			mark(2777);
		_exit(9);
	}
	waitpid((pid_t)pid, &status, 0);
	mark(3777);
	say("child %d\nprocess 1777x1 3777x1\nprocess 2777x100\n", WEXITSTATUS(status));
	return 0;
}
