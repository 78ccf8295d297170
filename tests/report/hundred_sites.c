/* SPDX-License-Identifier: MIT */
/*
 * Two threads that allocate at 100 call stacks: ten of them hold 1 MiB to 11 MiB, each 1.3 times
 * the next, the others 4 KiB to 700 KiB. Sizes are mixed; three blocks of ten are freed again, some
 * by another thread. The same blocks in every run.
 */
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>

enum { SITES = 100, TOP = 10, LEVELS = 7, ROUNDS = 400, HANDED = 1 << 16 };

static void *handed[2][HANDED];
static unsigned handed_count[2];

__attribute__((noinline)) static void *one(unsigned bits, int depth, size_t size);

/* The call stack is the bits of the site's number; the volatile result keeps each call a call. */
__attribute__((noinline)) static void *zero(unsigned bits, int depth, size_t size)
{
	void *volatile result = !depth     ? malloc(size)
				: bits & 1 ? one(bits >> 1, depth - 1, size)
					   : zero(bits >> 1, depth - 1, size);

	return result;
}

__attribute__((noinline)) static void *one(unsigned bits, int depth, size_t size)
{
	void *volatile result = !depth     ? malloc(size)
				: bits & 1 ? one(bits >> 1, depth - 1, size)
					   : zero(bits >> 1, depth - 1, size);

	return result;
}

static uint64_t next(uint64_t *state)
{
	*state = *state * 6364136223846793005u + 1442695040888963407u;
	return *state >> 33;
}

/* What a site holds in the end. */
static double share_of(unsigned site)
{
	if (site < TOP)
		return 1048576 * pow(1.3, TOP - 1 - site);
	return 4096 * pow(175, (SITES - 1 - site) / (double)(SITES - 1 - TOP));
}

static size_t size_of(unsigned site, uint64_t *state)
{
	size_t base = (size_t)8 << site % 8; /* 8 to 1024, rarely 16 times that */

	return base + next(state) % base + (next(state) % 64 ? 0 : 15 * base);
}

/* Half of the rounds of each site, in turn, so that sites and threads mix. */
static void *work(void *which)
{
	unsigned me = which != NULL;
	uint64_t state = 12345 + me;
	double held[SITES] = {0};

	for (unsigned round = 1; round <= ROUNDS; round++)
		for (unsigned site = 0; site < SITES; site++)
			while (held[site] < share_of(site) / 2 * round / ROUNDS) {
				size_t size = size_of(site, &state);
				void *p = zero(site, LEVELS, size);
				unsigned fate = (unsigned)(next(&state) % 10);

				if (fate >= 3)
					held[site] += (double)size;
				else if (fate || handed_count[me] == HANDED)
					free(p);
				else
					handed[me][handed_count[me]++] = p;
			}
	return NULL;
}

int main(void)
{
	pthread_t thread[2];

	for (unsigned t = 0; t < 2; t++)
		if (pthread_create(&thread[t], NULL, work, t ? handed : NULL))
			return 1;
	for (unsigned t = 0; t < 2; t++)
		pthread_join(thread[t], NULL);
	for (unsigned t = 0; t < 2; t++)
		for (unsigned i = 0; i < handed_count[t]; i++)
			free(handed[t][i]);
	return 0;
}
