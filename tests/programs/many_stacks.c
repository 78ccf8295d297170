/* SPDX-License-Identifier: MIT */
/*
 * COUNT allocations of random sizes, each from a call stack of its own (but for chance): a random
 * path through LEVELS levels of eight functions. Blocks replace each other at random among LIVE
 * ones. What was done is printed as `did ALLOCS FREES BYTES LIVE LIVE_BYTES`; memory in use, in
 * KiB, goes to the file FILE.
 */
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>

#include "program.h"

enum { LEVELS = 24, LIVE_MAX = 1 << 20 };

static struct {
	uint64_t allocs, frees, bytes, freed;
} did;
static struct {
	char *block;
	size_t size;
} live[LIVE_MAX];
static size_t live_count;
static uint64_t seed = 88172645463325252u;

static uint64_t next_random(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	return seed ^= seed << 17;
}

static void allocate(void)
{
	size_t size = 1 + next_random() % 500, at = next_random() % live_count;
	if (live[at].block) {
		did.frees++;
		did.freed += live[at].size;
		free(live[at].block);
	}
	live[at].block = malloc(size);
	if (!live[at].block)
		fail("malloc");
	live[at].size = size;
	did.allocs++;
	did.bytes += size;
}

static void descend(uint64_t path, int level);

#define STEP(n) \
	static __attribute__((noinline, noclone)) void step##n(uint64_t path, int level) \
	{ \
		descend(path, level); \
		__asm__ volatile("" ::: "memory"); \
	}
STEP(0)
STEP(1)
STEP(2)
STEP(3)
STEP(4)
STEP(5)
STEP(6)
STEP(7)

static __attribute__((noinline, noclone)) void descend(uint64_t path, int level)
{
	static void (*const step[])(uint64_t, int) = {step0, step1, step2, step3,
						      step4, step5, step6, step7};
	if (level == LEVELS)
		allocate();
	else
		step[(path >> (level * 2)) & 7](path, level + 1);
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	if (argc != 4)
		fail("usage: many_stacks COUNT LIVE FILE");
	uint64_t count = strtoull(argv[1], NULL, 0);
	live_count = strtoull(argv[2], NULL, 0);
	if (!live_count || live_count > LIVE_MAX)
		fail("LIVE");
	for (uint64_t i = 0; i < count; i++)
		descend(next_random(), 0);
	note_memory(argv[3]);
	say("did %llu %llu %llu %llu %llu\n", (unsigned long long)did.allocs,
	    (unsigned long long)did.frees, (unsigned long long)did.bytes,
	    (unsigned long long)(did.allocs - did.frees),
	    (unsigned long long)(did.bytes - did.freed));
	return 0;
}
