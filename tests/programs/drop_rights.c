/* SPDX-License-Identifier: MIT */
/*
 * A server that starts as root: it changes its root directory or its user, and forks then. The
 * child cannot make a file where its parent could.
 */
#include <sys/wait.h>

#include "program.h"

int main(int argc, char **argv)
{
	int status;
	mark(1777);
	if (argc > 1 && !strcmp(argv[1], "chroot") && (chroot("/var/empty") || chdir("/")) &&
	    (chroot("/proc/self/fdinfo") || chdir("/")))
		fail("chroot");
	if (argc > 1 && !strcmp(argv[1], "setuid") && (setgid(65534) || setuid(65534)))
		fail("setuid");
	for (int i = 0; i < 20000; i++)
		KEEP(malloc(20));
	pid_t pid = fork();
	if (!pid) {
		mark(3777);
		_exit(6);
	}
	waitpid(pid, &status, 0);
	mark(2777);
	say("child %d\n", WEXITSTATUS(status));
	return 0;
}
