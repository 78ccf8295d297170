/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, resize, free and hand blocks to each other for a time: stress THREADS
 * SECONDS [MS]. With MS they are interrupted all the time, wherever they are, by a signal whose
 * handler sleeps that long, and most blocks are so large that a lock guards what is known of them.
 * Every block is filled with what only it holds, and that is verified before it is resized
 * or freed, by whichever thread has it then. At the end nothing is left.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <time.h>

#include "random.h"
#include "say.h"

enum { SLOTS = 1000, POST = 64, THREADS_MAX = 16 };

struct block {
	unsigned char *p;
	size_t size;
	uint32_t seed;
};

struct worker {
	pthread_t thread;
	uint64_t state;
	unsigned long calls, wrong, handed;
	struct block block[SLOTS];
};

static struct worker workers[THREADS_MAX];
static struct block post[POST];
static pthread_mutex_t post_lock[POST];
static volatile int stop;
static long sleep_ms; /* of the handler; 0: no signals */

static unsigned char value(uint32_t seed, size_t i)
{
	return (unsigned char)((seed + i * 0x9e3779b1u) >> 24);
}

/* With signals what counts is the time in the allocator. */
static size_t filled(size_t n)
{
	return sleep_ms && n > 16 ? 16 : n;
}

static void put(struct block *b, size_t from)
{
	for (size_t i = from; i < filled(b->size); i++)
		b->p[i] = value(b->seed, i);
}

static void verify(struct worker *w, const struct block *b, size_t n)
{
	for (size_t i = 0; i < filled(n); i++)
		w->wrong += b->p[i] != value(b->seed, i);
}

static void make(struct worker *w, struct block *b)
{
	void *p = NULL;
	uint32_t shape = below(&w->state, 100);
	b->seed = next_random(&w->state);
	b->size = sleep_ms     ? 40000 + below(&w->state, 1000)
		  : shape < 90 ? below(&w->state, 256)
		  : shape < 99 ? below(&w->state, 8192)
			       : below(&w->state, 300000);
	switch (sleep_ms ? 5 : below(&w->state, 6)) {
	case 0:
		p = calloc(b->size, 1);
		for (size_t i = 0; i < b->size; i++)
			w->wrong += ((unsigned char *)p)[i] != 0;
		break;
	case 1:
		if (posix_memalign(&p, (size_t)8 << below(&w->state, 8), b->size))
			p = NULL;
		break;
	case 2:
		p = memalign(64, b->size);
		w->wrong += (uintptr_t)p % 64 != 0;
		break;
	default:
		p = malloc(b->size);
	}
	if (!p)
		_exit(98);
	b->p = p;
	put(b, 0);
}

static void resize(struct worker *w, struct block *b)
{
	size_t old = b->size, n = 1 + below(&w->state, 1000);
	unsigned char *p = realloc(b->p, n);
	if (!p)
		_exit(98);
	b->p = p;
	b->size = n;
	verify(w, b, old < n ? old : n);
	if (n > old)
		put(b, old);
}

static void drop(struct worker *w, struct block *b)
{
	if (!b->p)
		return;
	verify(w, b, b->size);
	free(b->p);
	b->p = NULL;
}

/* Takes what lies in a box of the post, and leaves its own. */
static void hand_over(struct worker *w, struct block *b)
{
	uint32_t box = below(&w->state, POST);
	struct block mine = *b;
	pthread_mutex_lock(&post_lock[box]);
	*b = post[box];
	post[box] = mine;
	pthread_mutex_unlock(&post_lock[box]);
	w->handed++;
}

static void *work(void *argument)
{
	struct worker *w = argument;
	while (!stop) {
		struct block *b = &w->block[below(&w->state, SLOTS)];
		uint32_t what = below(&w->state, 10);
		w->calls++;
		if (!b->p)
			make(w, b);
		else if (what < 2)
			resize(w, b);
		else if (what < 4)
			hand_over(w, b);
		else
			drop(w, b);
	}
	for (int i = 0; i < SLOTS; i++)
		drop(w, &w->block[i]);
	return NULL;
}

static void sleep_on(int signal)
{
	struct timespec t = {.tv_nsec = sleep_ms * 1000000};

	nanosleep(&t, NULL);
}

static void interrupt(int threads, long seconds)
{
	struct timespec pause = {.tv_nsec = 10000000}, now, end;
	uint64_t state = 7;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	do {
		pthread_kill(workers[below(&state, (uint32_t)threads)].thread, SIGUSR1);
		nanosleep(&pause, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec);
}

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 4;
	unsigned long calls = 0, wrong = 0, handed = 0;
	struct timespec time = {.tv_sec = argc > 2 ? atol(argv[2]) : 1};
	sleep_ms = argc > 3 ? atol(argv[3]) : 0;
	if (threads > THREADS_MAX)
		return 2;
	signal(SIGUSR1, sleep_on);
	for (int i = 0; i < POST; i++)
		pthread_mutex_init(&post_lock[i], NULL);
	for (int i = 0; i < threads; i++) {
		workers[i].state = (uint64_t)i + 11;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 97;
	}
	if (sleep_ms)
		interrupt(threads, time.tv_sec);
	else
		while (nanosleep(&time, &time))
			;
	stop = 1;
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		calls += workers[i].calls;
		wrong += workers[i].wrong;
		handed += workers[i].handed;
	}
	for (int i = 0; i < POST; i++)
		drop(&workers[0], &post[i]);
	say("wrong", wrong + workers[0].wrong);
	say("calls", calls);
	say("handed", handed);
	return 0;
}
