/* SPDX-License-Identifier: MIT */
/*
 * A program that a configuration file may name. Says who it is and waits for the end of its input
 * when asked to; allocates a block that it keeps.
 *
 *   subject [wait] [fork] [damage] [raise SIGNAL] [exec PROGRAM]
 */
#include <signal.h>
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

/* Writes behind a block. */
static void damage(void)
{
	volatile char *volatile block = malloc(24);
	block[24] = 1;
	free((void *)block);
}

/* What a signal asks for is done by the next call. */
static void raise_and_allocate(int number)
{
	raise(number);
	char *volatile block = malloc(77);
	free(block);
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
		else if (!strcmp(argv[i], "damage"))
			damage();
		else if (!strcmp(argv[i], "raise") && i + 1 < argc)
			raise_and_allocate(atoi(argv[++i]));
		else if (!strcmp(argv[i], "exec") && i + 1 < argc)
			execl(argv[i + 1], argv[i + 1], (char *)NULL);
	}
	return 7;
}
