/* SPDX-License-Identifier: MIT */
/*
 * Uses every function of the malloc family in several threads, up, down and to nothing, and says
 * what is the same in every run: family THREADS ROUNDS. Contents are checked wherever a block may
 * have moved. One block of 777 bytes stays.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>

#include "random.h"
#include "say.h"

enum { SLOTS = 48 };

struct worker {
	pthread_t thread;
	uint64_t state;
	long rounds;
	unsigned long wrong, calls, bytes;
	unsigned char *block[SLOTS];
	size_t size[SLOTS];
};

static unsigned char value(size_t slot, size_t i)
{
	return (unsigned char)(slot * 7 + i * 13 + 1);
}

static void put(struct worker *w, size_t slot, size_t from)
{
	for (size_t i = from; i < w->size[slot]; i++)
		w->block[slot][i] = value(slot, i);
	w->bytes += w->size[slot] - from;
}

static void check(struct worker *w, size_t slot, size_t n)
{
	for (size_t i = 0; i < n; i++)
		w->wrong += w->block[slot][i] != value(slot, i);
}

/* A new block of n bytes; *ret_align is what its address must be a multiple of. */
static void *made(struct worker *w, size_t n, size_t *ret_align)
{
	void *p = NULL;
	*ret_align = n >= 16 ? 16 : 8;
	switch (below(&w->state, 9)) {
	case 0:
		p = calloc(n, 1);
		for (size_t i = 0; i < n; i++)
			w->wrong += ((unsigned char *)p)[i] != 0;
		return p;
	case 1:
		return realloc(NULL, n);
	case 2:
		*ret_align = (size_t)8 << below(&w->state, 7);
		w->wrong += posix_memalign(&p, *ret_align, n) != 0;
		return p;
	case 3:
		*ret_align = 64;
		return aligned_alloc(64, (n + 63) / 64 * 64);
	case 4:
		*ret_align = 256;
		return memalign(256, n);
	case 5:
		*ret_align = 4096;
		return below(&w->state, 8) ? malloc(n) : valloc(n);
	case 6:
		p = strndup("a text that is copied", n);
		return realloc(p, n);
	default:
		return malloc(n);
	}
}

static void fresh(struct worker *w, size_t slot)
{
	size_t align, n = below(&w->state, below(&w->state, 20) ? 400 : 40000);
	w->block[slot] = made(w, n, &align);
	w->size[slot] = n;
	if (n && !w->block[slot])
		_exit(98);
	if (align != 4096) /* valloc is taken seldom: malloc gives 16 */
		w->wrong += (uintptr_t)w->block[slot] % align != 0;
	w->wrong += w->block[slot] && malloc_usable_size(w->block[slot]) < n;
	put(w, slot, 0);
}

static void resize(struct worker *w, size_t slot)
{
	size_t old = w->size[slot], n = 1 + below(&w->state, 1200);
	unsigned char *p = below(&w->state, 2) ? realloc(w->block[slot], n)
					       : reallocarray(w->block[slot], n, 1);
	if (!p)
		_exit(98);
	w->block[slot] = p;
	w->size[slot] = n;
	check(w, slot, old < n ? old : n);
	if (n > old)
		put(w, slot, old);
}

static void drop(struct worker *w, size_t slot)
{
	check(w, slot, w->size[slot]);
	if (w->block[slot] && below(&w->state, 10) == 0) {
		free(realloc(w->block[slot], 0)); /* of musl's own a block comes back */
	} else {
		free(w->block[slot]);
	}
	w->block[slot] = NULL;
	w->size[slot] = 0;
}

static void *work(void *argument)
{
	struct worker *w = argument;
	for (long i = 0; i < w->rounds; i++) {
		size_t slot = below(&w->state, SLOTS);
		w->calls++;
		if (!w->block[slot])
			fresh(w, slot);
		else if (below(&w->state, 3) == 0)
			resize(w, slot);
		else
			drop(w, slot);
		if (i % 50 == 0) {
			errno = 5;
			w->wrong += malloc(SIZE_MAX / 2) != NULL || errno != ENOMEM;
			free(NULL);
		}
	}
	for (size_t slot = 0; slot < SLOTS; slot++)
		drop(w, slot);
	return NULL;
}

static struct worker workers[8];

int main(int argc, char **argv)
{
	int threads = argc > 1 ? atoi(argv[1]) : 1;
	char *left = malloc(777);
	memset(left, 1, 777);
	for (int i = 0; i < threads; i++) {
		workers[i].state = (uint64_t)i + 3;
		workers[i].rounds = argc > 2 ? atol(argv[2]) : 100;
		if (pthread_create(&workers[i].thread, NULL, work, &workers[i]))
			return 97;
	}
	for (int i = 0; i < threads; i++) {
		pthread_join(workers[i].thread, NULL);
		say("calls", workers[i].calls);
		say("bytes", workers[i].bytes);
		say("wrong", workers[i].wrong);
	}
	return 0;
}
