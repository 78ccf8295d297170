/* SPDX-License-Identifier: MIT */
/*
 * A program that a configuration file may name. Says who it is and waits for the end of its input
 * when asked to; allocates a block that it keeps.
 *
 *   subject [wait] [fork] [exec PROGRAM]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/wait.h>
#include <unistd.h>

static void fork_one(void)
{
	pid_t pid = fork();
	if (!pid) {
		char *volatile block = malloc(100);
		free(block);
		printf("child=%d\n", (int)getpid());
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

int main(int argc, char **argv)
{
	static char *volatile kept;
	kept = malloc(1234);
	if (!kept)
		return 1;
	printf("pid=%d\nuser=%d\nsecure=%lu\n", (int)getpid(), (int)geteuid(),
	       getauxval(AT_SECURE));
	fflush(stdout);
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "wait"))
			while (getchar() != EOF)
				;
		else if (!strcmp(argv[i], "fork"))
			fork_one();
		else if (!strcmp(argv[i], "exec") && i + 1 < argc)
			execl(argv[i + 1], argv[i + 1], (char *)NULL);
	}
	return 7;
}
