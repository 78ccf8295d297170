/* SPDX-License-Identifier: MIT */
/*
 * A timer's handler forks wherever it finds the program in malloc, calloc, realloc or free. The
 * child's handler returns into the interrupted call; then the child allocates and ends. Prints how
 * many children did not end well.
 */
#include "program.h"

#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile sig_atomic_t is_child, forks;

static void handler(int signal)
{
	if (is_child)
		return;
	if (fork() == 0)
		is_child = 1;
	else
		forks++;
}

static void every(int microseconds)
{
	struct itimerval timer = {{0, microseconds}, {0, microseconds}};
	setitimer(ITIMER_REAL, &timer, NULL);
}

static void allocate(unsigned round)
{
	static char *p, *q;
	p = realloc(p, round & 1 ? 100000 : 1000);
	free(q);
	q = round & 2 ? malloc(round % 700) : calloc(round % 9, 30);
}

static void live_on(void)
{
	for (unsigned i = 0; i < 100; i++)
		allocate(i);
	_exit(0);
}

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
	int wanted = argc > 1 ? atoi(argv[1]) : 100, bad = 0, status;
	sigaction(SIGALRM, &action, NULL);
	every(2000);
	for (unsigned i = 0; forks < wanted; i++) {
		allocate(i);
		if (is_child)
			live_on();
		while (waitpid(-1, &status, WNOHANG) > 0)
			bad += status != 0;
	}
	every(0);
	if (is_child)
		live_on();
	while (waitpid(-1, &status, 0) > 0)
		bad += status != 0;
	say("bad %d\n", bad);
	return 0;
}
