/* SPDX-License-Identifier: MIT */
/*
 * A program with a large heap, for measurements: large MIB [EVERY|tiny]. Blocks of 16 bytes to
 * 16 KiB, each size as likely as its double, or all of 24; of their words one in EVERY (default 8)
 * points to another block, the rest are numbers. Each block holds the one before; seven of 777
 * bytes are lost. Says "ready BLOCKS" and waits; at SIGUSR1 it forks, and says "fork NS": how long
 * that took.
 */

#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LOST = 7, LOST_BYTES = 777, SIZES = 10, MIN_BYTES = 16 };

static void *volatile last;
static uint64_t state = 4711;

static uint64_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return state;
}

static void **make(void **all, size_t count, uint64_t every, size_t *ret_bytes)
{
	size_t bytes = ((size_t)MIN_BYTES << next() % SIZES) + next() % 16 * 8;
	void **b = malloc(bytes);

	b[0] = count ? all[count - 1] : NULL;
	for (size_t i = 1; i < bytes / 8; i++) {
		if (count && next() % every == 0)
			b[i] = all[next() % count];
		else
			b[i] = (void *)(next() % 3 ? next() % 100000 : next());
	}
	*ret_bytes = bytes;
	return b;
}

static size_t make_all(uint64_t wanted, uint64_t every)
{
	size_t most = wanted / MIN_BYTES / 8, count = 0, bytes;
	void **all = malloc(most * sizeof(*all));

	for (uint64_t done = 0; done < wanted && count < most; done += bytes)
		all[count] = make(all, count, every, &bytes), count++;
	last = all[count - 1];
	memset(all, 0, most * sizeof(*all));
	free(all);
	return count;
}

static size_t make_tiny(uint64_t wanted)
{
	size_t count = 0;

	for (uint64_t done = 0; done < wanted; done += 32, count++) {
		void **b = malloc(24);

		b[0] = last;
		b[1] = b[2] = NULL;
		last = b;
	}
	return count;
}

static void __attribute__((noinline)) lose(void)
{
	char *volatile p = malloc(LOST_BYTES);

	memset(p, 2, LOST_BYTES);
	p = NULL;
}

static void __attribute__((noinline)) scrub(void)
{
	volatile char area[16384];

	for (size_t i = 0; i < sizeof(area); i++)
		area[i] = 0;
}

static long now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000000 + t.tv_nsec;
}

static void time_fork(void)
{
	long start = now_ns();
	pid_t child = fork();

	if (!child)
		_exit(0);
	printf("fork %ld\n", now_ns() - start);
	fflush(stdout);
	waitpid(child, NULL, 0);
}

int main(int argc, char **argv)
{
	uint64_t every = argc > 2 ? strtoull(argv[2], NULL, 10) : 8;
	uint64_t bytes = strtoull(argv[1], NULL, 10) << 20;
	size_t count = every ? make_all(bytes, every) : make_tiny(bytes);

	for (int i = 0; i < LOST; i++)
		lose();
	scrub();
	sigset_t set;
	int number;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	printf("ready %zu\n", count);
	fflush(stdout);
	while (!sigwait(&set, &number))
		time_fork();
	return 1;
}
