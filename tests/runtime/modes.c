/* SPDX-License-Identifier: MIT */
/*
 * Allocates in many ways in several threads until it is told to end, and counts what it does.
 * Blocks go from thread to thread. Everything is freed at the end but LEFT blocks of one place.
 *
 *   modes THREADS ROUNDS     ROUNDS 0: until standard input ends
 *
 * Prints "ready" on a line, at the end NAME=VALUE lines. Nothing here allocates on its own account.
 */
#include <malloc.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { SHARED = 4096, THREADS_MAX = 16, LEFT = 50, LEFT_BYTES = 12345 };

static _Atomic(void *) shared[SHARED];
static atomic_int ending;
static unsigned long rounds;

struct worker {
	_Alignas(64) pthread_t thread;
	uint64_t random, allocs, frees, usable, freed_usable, reallocs;
};
static struct worker workers[THREADS_MAX];

static uint64_t next(struct worker *w)
{
	w->random ^= w->random << 13;
	w->random ^= w->random >> 7;
	return w->random ^= w->random << 17;
}

static void *count_new(struct worker *w, void *p)
{
	if (!p)
		abort();
	memset(p, 1, 1);
	w->allocs++;
	w->usable += malloc_usable_size(p);
	return p;
}

static void count_gone(struct worker *w, void *p)
{
	w->frees += p != NULL;
	w->freed_usable += p ? malloc_usable_size(p) : 0;
}

static void *allocate(struct worker *w)
{
	uint64_t r = next(w);
	size_t size = 1 + (r >> 8) % (r % 64 ? 600 : r % 4096 ? 100000 : 3 << 20);
	void *p = NULL;
	switch (r >> 56 & 7) {
	case 0:
		return calloc(1, size);
	case 1:
		return posix_memalign(&p, 64, size) ? NULL : p;
	case 2:
		return aligned_alloc(32, (size + 31) & ~(size_t)31);
	default:
		return malloc(size);
	}
}

static void *resize(struct worker *w, void *p)
{
	size_t size = 1 + next(w) % 3000;
	if (!p)
		return NULL;
	count_gone(w, p);
	p = realloc(p, size);
	count_new(w, p);
	w->reallocs++;
	return p;
}

static void *work(void *arg)
{
	struct worker *w = arg;
	for (unsigned long i = 0; rounds ? i < rounds : !atomic_load(&ending); i++) {
		_Atomic(void *) *place = &shared[next(w) % SHARED];
		void *old = atomic_exchange(place, NULL), *fresh;
		if (old && next(w) % 4 == 0) {
			fresh = resize(w, old);
		} else {
			count_gone(w, old);
			free(old);
			fresh = count_new(w, allocate(w));
		}
		old = atomic_exchange(place, fresh);
		count_gone(w, old);
		free(old);
	}
	return NULL;
}

__attribute__((noinline)) static void leave_behind(struct worker *w)
{
	for (int i = 0; i < LEFT; i++)
		count_new(w, malloc(LEFT_BYTES));
}

static void wait_for_end(void)
{
	char c;
	while (read(0, &c, 1) > 0)
		;
	atomic_store(&ending, 1);
}

int main(int argc, char **argv)
{
	static char buffer[4096];
	struct worker sum = {0};
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	if (argc < 3 || threads < 1 || threads > THREADS_MAX)
		return 2;
	rounds = strtoul(argv[2], NULL, 10);
	setvbuf(stdout, buffer, _IOLBF, sizeof(buffer));
	puts("ready");
	for (int i = 0; i < threads; i++) {
		workers[i].random = 88172645463325252u + (uint64_t)i;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 3;
	}
	if (!rounds)
		wait_for_end();
	for (int i = 0; i < threads; i++)
		pthread_join(workers[i].thread, NULL);
	for (int i = 0; i < SHARED; i++) {
		void *p = atomic_exchange(&shared[i], NULL);
		count_gone(&workers[0], p);
		free(p);
	}
	leave_behind(&workers[0]);
	for (int i = 0; i < threads; i++) {
		sum.allocs += workers[i].allocs;
		sum.frees += workers[i].frees;
		sum.usable += workers[i].usable;
		sum.freed_usable += workers[i].freed_usable;
		sum.reallocs += workers[i].reallocs;
	}
	printf("allocs=%lu\nfrees=%lu\nusable=%lu\nfreed_usable=%lu\nreallocs=%lu\n", sum.allocs,
	       sum.frees, sum.usable, sum.freed_usable, sum.reallocs);
	return 0;
}
