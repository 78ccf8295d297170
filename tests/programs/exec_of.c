/* SPDX-License-Identifier: MIT */
/* Starts the program named by its arguments in each way and prints how it ended. */
#include <errno.h>
#include <spawn.h>
#include <sys/wait.h>

#include "program.h"

extern char **environ;

static void ended(const char *how, pid_t pid)
{
	int status;
	waitpid(pid, &status, 0);
	if (WIFSIGNALED(status))
		say("%s: signal %d\n", how, WTERMSIG(status));
	else
		say("%s: exit %d\n", how, WEXITSTATUS(status));
}

int main(int argc, char **argv)
{
	mark(60777);
	if (argc < 2)
		fail("no program");
	pid_t pid = fork();
	if (!pid) {
		execvp(argv[1], argv + 1);
		_exit(errno == ENOENT ? 127 : 126);
	}
	ended("fork, exec", pid);
	pid = vfork();
	if (!pid) {
		execve(argv[1], argv + 1, environ);
		_exit(errno == ENOENT ? 127 : 126);
	}
	ended("vfork, exec", pid);
	int error = posix_spawn(&pid, argv[1], NULL, NULL, argv + 1, environ);
	if (error)
		say("spawn: error %s\n", error == ENOENT    ? "ENOENT"
					 : error == ENOEXEC ? "ENOEXEC"
							    : "?");
	else
		ended("spawn", pid);
	return 0;
}
