/* SPDX-License-Identifier: MIT */
/* posix_spawn with file actions and attributes, posix_spawnp and system. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>

#include "program.h"

extern char **environ;

static int spawned(char *path, int with_actions)
{
	int fds[2], status;
	char text[64] = "";
	char *argv[] = {path, "again", NULL};
	posix_spawn_file_actions_t actions;
	posix_spawnattr_t attributes;
	sigset_t all;
	pid_t pid;
	if (pipe(fds))
		fail("pipe");
	posix_spawn_file_actions_init(&actions);
	posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
	posix_spawn_file_actions_adddup2(&actions, fds[1], 1);
	posix_spawn_file_actions_addclose(&actions, fds[0]);
	posix_spawnattr_init(&attributes);
	sigfillset(&all);
	posix_spawnattr_setsigdefault(&attributes, &all);
	posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
	int error = posix_spawn(&pid, path, with_actions ? &actions : NULL,
				with_actions ? &attributes : NULL, argv, environ);
	posix_spawn_file_actions_destroy(&actions);
	posix_spawnattr_destroy(&attributes);
	close(fds[1]);
	if (!error) {
		waitpid(pid, &status, 0);
		if (with_actions && read(fds[0], text, sizeof(text) - 1) < 0)
			fail("read");
		say("spawned: status %d, said '%s'\n", WEXITSTATUS(status), text);
	}
	close(fds[0]);
	return error;
}

int main(int argc, char **argv)
{
	if (argc > 1) {
		mark(3777);
		say("hello");
		return 6;
	}
	mark(1777);
	if (spawned(argv[0], 1))
		fail("spawn with actions");
	if (spawned(argv[0], 0))
		fail("spawn without actions");
	say("missing: %s\n", spawned("/nonexistent", 1) == ENOENT ? "ENOENT" : "?");
	pid_t pid;
	int status;
	char *word[] = {"true", NULL};
	if (posix_spawnp(&pid, "true", NULL, NULL, word, environ))
		fail("posix_spawnp");
	waitpid(pid, &status, 0);
	say("true: %d\n", WEXITSTATUS(status));
	say("system: %d\n", WEXITSTATUS(system("exit 3")));
	say("process 1777x1\nprocess 3777x1\nprocess 3777x1\nprocess\nprocess\n");
	return 0;
}
