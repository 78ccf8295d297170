/* SPDX-License-Identifier: MIT */
/*
 * Random sizes from eight call sites that rise and fall several times. The program keeps its own
 * count of live bytes and prints the highest, and per site what was live then.
 */
#include <stdint.h>

#include "program.h"

enum { SLOTS = 2000, STEPS = 60000, SITES = 4 };
struct slot {
	void *p;
	size_t size;
	int site;
};
static struct slot slots[SLOTS];
static long live, peak, site_live[SITES], site_at_peak[SITES];

static void count(int site, long bytes)
{
	live += bytes;
	site_live[site] += bytes;
	if (live > peak) {
		peak = live;
		memcpy(site_at_peak, site_live, sizeof(site_live));
	}
}

static __attribute__((noinline)) void *site_0(size_t size)
{
	void *p = malloc(size);
	KEEP(p);
	return p;
}

static __attribute__((noinline)) void *site_1(size_t size)
{
	void *p = calloc(1, size);
	KEEP(p);
	return p;
}

static __attribute__((noinline)) void *site_2(size_t size)
{
	void *p = NULL;
	if (posix_memalign(&p, 32, size))
		fail("posix_memalign");
	return p;
}

static __attribute__((noinline)) void *site_3(void *p, size_t size)
{
	p = realloc(p, size);
	KEEP(p);
	return p;
}

static void step(struct slot *s, uint64_t r, int falling)
{
	static void *(*const make[])(size_t) = {site_0, site_1, site_2};
	size_t size = r % 50 ? r / 50 % 300 + 1 : r / 50 % 60000 + 1;
	if (s->p && r / 7 % 5 == 0) {
		s->p = site_3(s->p, size);
		live -= (long)s->size;
		site_live[s->site] -= (long)s->size;
		s->site = 3;
		s->size = size;
		count(3, (long)size);
	} else if (s->p && (falling || r / 7 % 3 == 0)) {
		free(s->p);
		count(s->site, -(long)s->size);
		s->p = NULL;
	} else if (!s->p && !falling) {
		s->site = (int)(r / 11 % 3);
		s->p = make[s->site](size);
		s->size = size;
		count(s->site, (long)size);
	}
}

int main(void)
{
	uint64_t seed = 88172645463325252u;
	for (int i = 0; i < STEPS; i++) {
		seed ^= seed << 13;
		seed ^= seed >> 7;
		seed ^= seed << 17;
		step(&slots[(seed >> 32) % SLOTS], seed >> 8 & 0xffffff, i / 10000 % 2);
	}
	say("peak %ld live %ld at peak %ld %ld %ld %ld\n", peak, live, site_at_peak[0],
	    site_at_peak[1], site_at_peak[2], site_at_peak[3]);
	return 0;
}
