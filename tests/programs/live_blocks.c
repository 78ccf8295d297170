/* SPDX-License-Identifier: MIT */
/*
 * COUNT live blocks of SIZE bytes, made by THREADS threads; then what the process takes of memory,
 * in KiB, goes to the file FILE.
 */
#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>

#include "program.h"

struct share {
	char **block;
	size_t count, size;
};

static void *work(void *argument)
{
	struct share *s = argument;
	for (size_t i = 0; i < s->count; i++) {
		s->block[i] = malloc(s->size);
		if (!s->block[i])
			fail("malloc");
	}
	return NULL;
}

int main(int argc, char **argv)
{
	if (argc != 5)
		fail("usage: live_blocks THREADS COUNT SIZE FILE");
	size_t threads = strtoull(argv[1], NULL, 0), count = strtoull(argv[2], NULL, 0);
	static pthread_t thread[64];
	static struct share share[64];
	char **block = mmap(NULL, count * sizeof(*block), PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
	if (block == MAP_FAILED || threads > 64)
		fail("mmap");
	for (size_t i = 0; i < threads; i++) {
		share[i] = (struct share){block + i * (count / threads), count / threads,
					  strtoull(argv[3], NULL, 0)};
		if (threads == 1)
			work(&share[i]);
		else if (pthread_create(&thread[i], NULL, work, &share[i]))
			fail("pthread_create");
	}
	for (size_t i = 0; threads > 1 && i < threads; i++)
		pthread_join(thread[i], NULL);
	note_memory(argv[4]);
	say("process\n");
	return 0;
}
