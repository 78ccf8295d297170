/* SPDX-License-Identifier: MIT */
/*
 * A program that asks for its own lost blocks.
 *
 *	asks [LOST] [signals]
 *
 * Prints what memtrack_leaks() says: result, errno, count, bytes, how many are listed, the first
 * one's bytes and similar. signals: with a handler for SIGCHLD and a child, to see that neither is
 * disturbed.
 */
#include <errno.h>
#include <memtrack.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static volatile int ended;
static void *volatile keep;

static void on_child(int number)
{
	ended++;
}

__attribute__((noinline)) static void lose(int count)
{
	while (count--)
		memset(malloc(1000), 1, 1000);
}

__attribute__((noinline)) static void clean(void)
{
	volatile char room[16384];

	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = 0;
}

int main(int argc, char **argv)
{
	static struct memtrack_leaks l = {.struct_bytes = sizeof(l)};
	int has_signals = argc > 2, status, code;
	pid_t child = 0;

	keep = malloc(500);
	lose(argc > 1 ? atoi(argv[1]) : 0);
	clean();
	if (has_signals) {
		signal(SIGCHLD, on_child);
		child = fork();
		if (!child) {
			usleep(300000);
			_exit(7);
		}
	}
	errno = 77;
	code = memtrack_leaks(&l);
	printf("%d %d %llu %llu %zu %zu %llu\n", code, errno, (unsigned long long)l.lost_count,
	       (unsigned long long)l.lost_bytes, l.listed, l.listed ? l.leak[0].bytes : 0,
	       l.listed ? (unsigned long long)l.leak[0].similar : 0);
	if (has_signals) {
		pid_t got = waitpid(-1, &status, 0);

		printf("%d %d %d %d\n", got == child, WEXITSTATUS(status), ended,
		       waitpid(-1, &status, 0) < 0);
	}
	return 0;
}
