/* SPDX-License-Identifier: MIT */
/* A heap of a few pages, for the corpus of the fuzzer (take_image.py): tiny SEED THREADS */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCKS = 70 };

static unsigned seed;
static pthread_barrier_t barrier;

static void *work(void *opaque)
{
	void *block[BLOCKS];
	unsigned random = seed + (unsigned)(uintptr_t)opaque;

	for (int i = 0; i < BLOCKS; i++) {
		random = random * 1103515245 + 12345;
		block[i] = i == 9 ? aligned_alloc(256, 512) : malloc(random >> 16 & 255);
		memset(block[i], 0x21, 1);
	}
	for (int i = 0; i < BLOCKS; i += 1 + i % 3)
		free(block[i]);
	if (opaque) {
		pthread_barrier_wait(&barrier);
		pause();
	}
	return NULL;
}

int main(int argc, char **argv)
{
	unsigned threads = argc > 2 ? (unsigned)atoi(argv[2]) : 1;
	char line[40], c;
	pthread_t id;

	seed = argc > 1 ? (unsigned)atoi(argv[1]) : 1;
	alarm(60);
	pthread_barrier_init(&barrier, NULL, threads);
	for (uintptr_t t = 1; t < threads; t++)
		pthread_create(&id, NULL, work, (void *)t);
	work(NULL);
	if (malloc(300000) && threads > 1)
		pthread_barrier_wait(&barrier);
	snprintf(line, sizeof(line), "ready %d\n", (int)getpid());
	return write(1, line, strlen(line)) > 0 && read(0, &c, 1) >= 0 ? 0 : 1;
}
