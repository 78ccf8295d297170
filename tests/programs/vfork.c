/* SPDX-License-Identifier: MIT */
/* vfork: what the child allocates before exec is the parent's memory; the new program has its own.
 */
#include <sys/wait.h>

#include "program.h"

int main(int argc, char **argv)
{
	if (argc > 1) {
		mark(3777);
		return 5;
	}
	int status;
	mark(1777);
	char *again[] = {argv[0], "again", NULL};
	for (int i = 0; i < 2; i++) {
		pid_t pid = vfork();
		if (!pid) {
			mark(2777);
			execv(argv[0], again);
			_exit(127);
		}
		waitpid(pid, &status, 0);
		say("child %d\n", WEXITSTATUS(status));
	}
	pid_t pid = vfork();
	if (!pid) {
		execv("/nonexistent/program", again);
		_exit(77);
	}
	waitpid(pid, &status, 0);
	mark(4777);
	say("failed child %d\n", WEXITSTATUS(status));
	say("process 1777x1 2777x2 4777x1\nprocess 3777x1\nprocess 3777x1\n");
	return 0;
}
