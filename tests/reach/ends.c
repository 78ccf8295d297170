/* SPDX-License-Identifier: MIT */
/*
 * Programs whose lost and reachable blocks are known when they end.
 *
 *	ends [fork] [threads] [many] [wait] [signal|_exit|exec PROGRAM]
 *
 * Lost: 3 blocks of 1000 bytes, a list of 5 of 2000, with `many` 200,000 of 40. Reachable: 4 of
 *3000, and what a thread has. fork: a child that loses 7 of 500. threads: 4 that allocate until the
 *end.
 */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile keep[4];
static volatile int is_over;

__attribute__((noinline)) static char *lose(size_t bytes)
{
	char *p = malloc(bytes);

	memset(p, 1, bytes);
	return p;
}

__attribute__((noinline)) static void lose_some(int count, size_t bytes)
{
	while (count--)
		lose(bytes);
}

__attribute__((noinline)) static void lose_list(int count, size_t bytes)
{
	void *first = NULL;

	while (count--) {
		void **p = (void **)lose(bytes);

		*p = first;
		first = p;
	}
}

__attribute__((noinline)) static void hold(void)
{
	for (int i = 0; i < 4; i++)
		keep[i] = lose(3000);
}

static void *work(void *nothing)
{
	while (!is_over)
		free(lose(64));
	return NULL;
}

/* What lies below the stack pointer is dead, but what calls leave in it may look like a pointer. */
__attribute__((noinline)) static void clean(void)
{
	volatile char room[16384];

	for (size_t i = 0; i < sizeof(room); i++)
		room[i] = 0;
}

int main(int argc, char **argv)
{
	pthread_t thread;

	lose_some(3, 1000);
	lose_list(5, 2000);
	hold();
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "many"))
			lose_some(200000, 40);
		if (!strcmp(argv[i], "threads"))
			for (int k = 0; k < 4; k++)
				pthread_create(&thread, NULL, work, NULL);
		if (!strcmp(argv[i], "fork") && !fork()) {
			lose_some(7, 500);
			clean();
			return 0;
		}
		if (!strcmp(argv[i], "fork"))
			wait(NULL);
	}
	clean();
	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "wait")) {
			printf("ready %d\n", (int)getpid());
			fflush(stdout);
			(void)!getchar();
		}
		if (!strcmp(argv[i], "signal"))
			raise(SIGTERM);
		if (!strcmp(argv[i], "_exit"))
			_exit(0);
		if (!strcmp(argv[i], "exec"))
			execv(argv[i + 1], argv + i + 1);
	}
	return 0;
}
