/* SPDX-License-Identifier: MIT */
/*
 * A service in small, for soaks: 4 threads serve requests with blocks of their own, a table of 32
 * MiB whose rows are replaced all the time (noise), a cache that fills in the first fifth of the
 * run and then stays, and a leak of 1 % of the table per day, a day being 1440 seconds here.
 *
 *   service SECONDS
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { THREADS = 4, ROWS = 65536, ROW_BYTES = 512, ENTRIES = 4096, ENTRY_BYTES = 1000 };
enum { DAY_S = 1440, LEAK_BYTES = 1024, STEP_US = 5000 };

static double run_s;
static struct timespec begin;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static void *rows[ROWS], *cache[ENTRIES];

static double now_s(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)(t.tv_sec - begin.tv_sec) + (double)(t.tv_nsec - begin.tv_nsec) / 1e9;
}

static uint64_t next(uint64_t *x)
{
	*x ^= *x << 13;
	*x ^= *x >> 7;
	return *x ^= *x << 17;
}

static void *take(size_t size)
{
	void *p = malloc(size);
	if (!p)
		abort();
	memset(p, 1, size);
	return p;
}

__attribute__((noinline)) static void *leak_here(void)
{
	void *p = take(LEAK_BYTES);
	__asm__ volatile("" : "+r"(p));
	return p;
}

__attribute__((noinline)) static void *cache_entry(void)
{
	void *p = take(ENTRY_BYTES);
	__asm__ volatile("" : "+r"(p));
	return p;
}

__attribute__((noinline)) static void *table_row(uint64_t *random)
{
	void *p = take(ROW_BYTES / 2 + next(random) % ROW_BYTES);
	__asm__ volatile("" : "+r"(p));
	return p;
}

__attribute__((noinline)) static void serve(uint64_t *random)
{
	void *part[32];
	for (int i = 0; i < 32; i++)
		part[i] = take(16 + next(random) % 2000);
	for (int i = 0; i < 32; i++)
		free(part[i]);
	for (int i = 0; i < 50; i++) {
		void *fresh = table_row(random), **row = &rows[next(random) % ROWS];
		pthread_mutex_lock(&lock);
		void *old = *row;
		*row = fresh;
		pthread_mutex_unlock(&lock);
		free(old);
	}
}

static void *work(void *arg)
{
	uint64_t random = 88172645463325252u + (uintptr_t)arg;
	const struct timespec step = {0, STEP_US * 1000};
	while (now_s() < run_s) {
		serve(&random);
		nanosleep(&step, NULL);
	}
	return NULL;
}

/* Once every step: what leaks and what fills by the clock. */
static void grow(void)
{
	const double leak_per_s = 0.01 * ROWS * ROW_BYTES / DAY_S;
	const struct timespec step = {0, STEP_US * 1000};
	uint64_t leaked = 0, cached = 0;
	for (double t; (t = now_s()) < run_s; nanosleep(&step, NULL)) {
		for (; (double)leaked * LEAK_BYTES < t * leak_per_s; leaked++)
			leak_here();
		for (; cached < ENTRIES && (double)cached < t / (run_s / 5) * ENTRIES; cached++)
			cache[cached] = cache_entry();
	}
	printf("leaked=%llu\n", (unsigned long long)leaked * LEAK_BYTES);
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS];
	uint64_t random = 1;
	run_s = argc > 1 ? atof(argv[1]) : 0;
	clock_gettime(CLOCK_MONOTONIC, &begin);
	for (int i = 0; i < ROWS; i++)
		rows[i] = table_row(&random);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, (void *)(uintptr_t)i))
			return 1;
	grow();
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	return 0;
}
