/* SPDX-License-Identifier: MIT */
/*
 * Programs to be recorded: traffic KIND ROUNDS.
 *
 *   plain    one thread, sizes and lifetimes that vary
 *   threads  four threads that pass blocks to each other and free what they get
 *   forks    a process that forks, and whose children allocate and exit
 *   kinds    every function of the malloc family
 *   killed   as plain, then kills itself with SIGKILL
 *   slow     as plain, until standard input ends; prints "ready" first
 */
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { KEPT = 5000, THREADS = 4, MAILBOX = 256 };

static uint64_t next_random(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static __attribute__((noinline)) void *get_small(size_t size)
{
	return malloc(size);
}

static __attribute__((noinline)) void *get_any(size_t size)
{
	return malloc(size);
}

static void plain(uint64_t seed, long rounds)
{
	static __thread void *kept[KEPT];

	for (long i = 0; i < rounds; i++) {
		uint64_t r = next_random(&seed);
		void **place = &kept[r % (i % 4 ? 60 : KEPT)];

		if (r >> 20 & 1 && *place) {
			*place = realloc(*place, 1 + (r >> 32) % 3000);
			continue;
		}
		free(*place);
		*place = r >> 21 & 1 ? get_small(16 + (r >> 32) % 64) : get_any((r >> 32) % 50000);
	}
	for (int i = 0; i < KEPT; i += 2) {
		free(kept[i]);
		kept[i] = NULL;
	}
}

static void *mailbox[THREADS][MAILBOX];

static void *pass_on(void *opaque)
{
	uintptr_t self = (uintptr_t)opaque & 15;
	long rounds = (long)((uintptr_t)opaque >> 4);
	uint64_t seed = 77 + self;

	for (long i = 0; i < rounds; i++) {
		uint64_t r = next_random(&seed);
		void *block = get_small(24 + 16 * self), *got;

		got = __atomic_exchange_n(&mailbox[(self + 1) % THREADS][r % MAILBOX], block,
					  __ATOMIC_ACQ_REL);
		free(got);
		got = __atomic_exchange_n(&mailbox[self][(r >> 16) % MAILBOX], NULL,
					  __ATOMIC_ACQ_REL);
		if (i % 3)
			free(got);
		else if (got)
			free(realloc(got, 100));
	}
	return NULL;
}

static void threads(long rounds)
{
	pthread_t thread[THREADS];

	for (uintptr_t i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, pass_on, (void *)((uintptr_t)rounds << 4 | i));
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

static void forks(long rounds)
{
	for (long i = 0; i < rounds; i++) {
		pid_t pid = fork();

		if (!pid) {
			plain(900 + (uint64_t)i, 2000 + i % 7 * 5000);
			exit(0);
		}
		if (i % 4 == 3)
			while (wait(NULL) > 0)
				;
	}
	while (wait(NULL) > 0)
		;
}

static void kinds(long rounds)
{
	for (long i = 0; i < rounds; i++) {
		void *p = NULL;

		free(calloc(3, 100));
		free(aligned_alloc(64, 640));
		free(memalign(256, 100));
		free(valloc(100));
		if (!posix_memalign(&p, 4096, 5000))
			p = realloc(p, 9000);
		p = reallocarray(p, 20, 500);
		free(p);
		free(realloc(NULL, 33));
		p = realloc(malloc(40), SIZE_MAX / 4); /* refused: leaves its block */
		free(strdup("as libc allocates"));
	}
}

int main(int argc, char **argv)
{
	const char *kind = argc > 1 ? argv[1] : "plain";
	long rounds = argc > 2 ? atol(argv[2]) : 100000;
	char c;

	if (!strcmp(kind, "threads"))
		threads(rounds);
	else if (!strcmp(kind, "forks"))
		forks(rounds);
	else if (!strcmp(kind, "kinds"))
		kinds(rounds);
	else
		plain(4711, rounds);
	if (!strcmp(kind, "killed"))
		kill(getpid(), SIGKILL);
	if (!strcmp(kind, "slow")) {
		puts("ready");
		fflush(stdout);
		while (read(0, &c, 1) > 0)
			plain((uint64_t)c, rounds);
	}
	return 0;
}
