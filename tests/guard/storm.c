/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, resize, check and free each other's blocks, with forks in between: no
 * block may be lost, moved or changed. Arguments: threads, rounds.
 */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdatomic.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { SHARED = 64, FORKS = 4 };

struct item {
	unsigned char *p;
	size_t size;
};

static struct item *_Atomic shared[SHARED];
static int rounds;
static _Atomic int wrong;

static void check(const struct item *i)
{
	for (size_t k = 0; k < i->size; k++)
		if (i->p[k] != (unsigned char)(i->size * 7)) {
			wrong++;
			return;
		}
	if (malloc_usable_size(i->p) < i->size)
		wrong++;
}

static void fill(struct item *i, size_t size)
{
	i->size = size;
	memset(i->p, (int)(unsigned char)(size * 7), size);
}

static void fork_once(const struct item *mine)
{
	int status = 0;
	pid_t child = fork();
	if (!child) {
		check(mine);
		free(mine->p); /* the parent's, too */
		char *own = malloc(100);
		memset(own, 1, 100);
		free(own);
		_exit(wrong != 0);
	}
	if (waitpid(child, &status, 0) != child || status)
		wrong++;
}

static void *work(void *seed)
{
	uint64_t x = (uint64_t)(uintptr_t)seed * 0x9e3779b97f4a7c15u + 1;
	for (int n = 0; n < rounds; n++) {
		x = x * 6364136223846793005u + 1442695040888963407u;
		size_t size = (x >> 33) % 300, other = (x >> 40) % 600;
		struct item *i = malloc(sizeof(*i));
		i->p = (x >> 60) % 2 ? malloc(size) : calloc(1, size);
		fill(i, size);
		if ((x >> 61) % 2) {
			check(i);
			i->p = realloc(i->p, other + 1);
			fill(i, other + 1);
		}
		if (n % (rounds / FORKS + 1) == 1)
			fork_once(i);
		struct item *old = atomic_exchange_explicit(&shared[(x >> 50) % SHARED], i,
							    memory_order_acq_rel);
		if (old) {
			check(old);
			free(old->p);
			free(old);
		}
	}
	return NULL;
}

int main(int argc, char **argv)
{
	pthread_t t[16];
	int threads = argc > 1 ? atoi(argv[1]) : 4;
	rounds = argc > 2 ? atoi(argv[2]) : 1000;
	for (int i = 0; i < threads; i++)
		pthread_create(&t[i], NULL, work, (void *)(uintptr_t)(i + 1));
	for (int i = 0; i < threads; i++)
		pthread_join(t[i], NULL);
	for (int i = 0; i < SHARED; i++)
		if (shared[i]) {
			check(shared[i]);
			free(shared[i]->p);
			free(shared[i]);
		}
	printf("wrong: %d\n", wrong);
	return wrong != 0;
}
