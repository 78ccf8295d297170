/* SPDX-License-Identifier: MIT */
/*
 * What the command's tests run: leaks 20 blocks of 1000 bytes, then does what its first argument
 * says.
 */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t caught;
static void *volatile keep[20];

static void on_signal(int sig)
{
	caught = sig;
}

static void __attribute__((noinline)) leak_here(void)
{
	for (int i = 0; i < 20; i++)
		keep[i] = malloc(1000);
}

static int wait_for_signal(void)
{
	const int signals[] = {SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGINT};
	sigset_t mask, before;

	/* blocked but while it waits: one that came between test and wait would be missed */
	sigemptyset(&mask);
	for (int i = 0; i < 5; i++) {
		sigaddset(&mask, signals[i]);
		signal(signals[i], on_signal);
	}
	sigprocmask(SIG_BLOCK, &mask, &before);
	puts("ready");
	fflush(stdout);
	while (!caught)
		sigsuspend(&before);
	printf("signal %d\n", (int)caught);
	return 40;
}

/* Allocates and frees for about `ms` milliseconds. */
static int churn(unsigned ms)
{
	struct timespec start, now;
	void *block[64] = {0};

	clock_gettime(CLOCK_MONOTONIC, &start);
	do {
		for (unsigned i = 0; i < 64; i++) {
			free(block[i]);
			block[i] = malloc(100 + i);
		}
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while ((now.tv_sec - start.tv_sec) * 1000 + (now.tv_nsec - start.tv_nsec) / 1000000 < ms);
	return 0;
}

static void __attribute__((noinline)) grow_here(void)
{
	keep[0] = malloc(1000);
}

/* Allocates without end, some thousand times a second. */
static void grow(void)
{
	const struct timespec pause = {0, 2000000};

	puts("ready");
	fflush(stdout);
	for (;;) {
		for (int i = 0; i < 10; i++)
			grow_here();
		nanosleep(&pause, NULL);
	}
}

/* A child that has allocated before we end, and lives on. */
static int leave_daemon(unsigned seconds)
{
	int fds[2];
	char byte;

	if (pipe(fds))
		return 1;
	if (!fork()) {
		leak_here();
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		sleep(seconds);
		_exit(0);
	}
	return read(fds[0], &byte, 1) != 1;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";

	leak_here();
	if (!strcmp(what, "exit"))
		return atoi(argv[2]);
	if (!strcmp(what, "kill")) {
		raise(atoi(argv[2]));
		return 1;
	}
	if (!strcmp(what, "signal"))
		return wait_for_signal();
	if (!strcmp(what, "churn"))
		return churn((unsigned)atoi(argv[2]));
	if (!strcmp(what, "grow"))
		grow();
	if (!strcmp(what, "free"))
		for (int i = 0; i < 20; i++)
			free(keep[i]);
	if (!strcmp(what, "fork")) {
		if (!fork()) {
			leak_here();
			_exit(0);
		}
		wait(NULL);
	}
	if (!strcmp(what, "exec"))
		execl(argv[0], argv[0], "exit", "9", (char *)NULL);
	if (!strcmp(what, "daemon"))
		return leave_daemon((unsigned)atoi(argv[2]));
	return 0;
}
