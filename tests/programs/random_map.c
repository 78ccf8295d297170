/* SPDX-License-Identifier: MIT */
/*
 * Random allocation, reallocation and freeing by two threads, with blocks handed between them. The
 * program's own map of live blocks goes to the file argv[1], an address and a size a line. argv[2]
 * seeds.
 */
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>

#include "program.h"

enum { SLOTS = 4096, STEPS = 120000 };
struct slot {
	void *p;
	size_t size;
};
static struct slot slots[SLOTS];
static pthread_barrier_t barrier;
static uint64_t seed_factor = 1;

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static size_t random_size(uint64_t r)
{
	if (r % 1000 == 0)
		return 100000 + r / 1000 % 500000;
	if (r % 20 == 0)
		return r / 20 % 40000;
	return r % 7 ? r / 7 % 256 : r / 7 % 9;
}

static void allocate(struct slot *s, uint64_t r, size_t size)
{
	switch (r % 6) {
	case 0:
		s->p = calloc(1, size);
		break;
	case 1:
		if (posix_memalign(&s->p, 16u << (r / 6 % 6), size))
			fail("posix_memalign");
		break;
	case 2:
		s->p = realloc(NULL, size);
		break;
	default:
		s->p = malloc(size);
	}
	if (!s->p)
		fail("allocation");
	s->size = size;
	memset(s->p, 0x5a, size);
}

static void *work(void *argument)
{
	size_t me = (size_t)argument;
	uint64_t seed = (0x9e3779b97f4a7c15u + me) * seed_factor;
	for (int step = 0; step < STEPS; step++) {
		uint64_t r = next(&seed);
		/* one thread owns the even slots and one the odd ones; they change at a barrier */
		struct slot *s =
			&slots[(r >> 40) % (SLOTS / 2) * 2 + (me ^ (size_t)(step / 1000 % 2))];
		if (step % 1000 == 0)
			pthread_barrier_wait(&barrier);
		if (!s->p) {
			allocate(s, r >> 8, random_size(r >> 12));
		} else if (r % 4 == 0) {
			size_t size = random_size(r >> 12) + 1;
			void *p = realloc(s->p, size);
			if (!p)
				fail("realloc");
			s->p = p;
			s->size = size;
		} else {
			free(s->p);
			s->p = NULL;
		}
	}
	return NULL;
}

static void write_map(const char *path)
{
	char text[64];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	for (int i = 0; i < SLOTS; i++) {
		if (!slots[i].p)
			continue;
		int n = snprintf(text, sizeof(text), "%zx %zu\n", (size_t)slots[i].p,
				 slots[i].size);
		if (write(fd, text, (size_t)n) != n)
			fail("write");
	}
	close(fd);
}

int main(int argc, char **argv)
{
	pthread_t thread;
	if (argc > 2)
		seed_factor = 2 * (uint64_t)atoi(argv[2]) + 1;
	pthread_barrier_init(&barrier, NULL, 2);
	if (pthread_create(&thread, NULL, work, (void *)1))
		fail("pthread_create");
	work(NULL);
	pthread_join(thread, NULL);
	write_map(argv[1]);
	say("done\n");
	return 0;
}
