/* SPDX-License-Identifier: MIT */
/*
 * Allocates and frees until it is killed. The file argv[1] holds, per thread, how many allocations
 * and frees of marks were begun and ended, in memory that outlives us.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/mman.h>

#include "program.h"

enum { THREADS = 3 };
struct counts {
	volatile uint64_t allocs_begun, allocs_ended, frees_begun, frees_ended, room[4];
};
static struct counts *counts;

static void *work(void *argument)
{
	struct counts *c = &counts[(size_t)argument];
	void *held[50] = {0};
	for (uint64_t i = 0;; i++) {
		if (held[i % 50]) {
			c->frees_begun++;
			free(held[i % 50]);
			c->frees_ended++;
		}
		c->allocs_begun++;
		held[i % 50] = malloc(1777);
		c->allocs_ended++;
	}
	return NULL;
}

int main(int argc, char **argv)
{
	int fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (fd < 0 || ftruncate(fd, 4096))
		fail("file");
	counts = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (counts == MAP_FAILED)
		fail("mmap");
	for (size_t i = 1; i < THREADS; i++) {
		pthread_t thread;
		if (pthread_create(&thread, NULL, work, (void *)i))
			fail("pthread_create");
	}
	work(NULL);
	return 0;
}
