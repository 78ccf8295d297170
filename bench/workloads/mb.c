/* SPDX-License-Identifier: MIT */
/*
 * Malloc-heavy microbenchmark with deep and varied call stacks.
 *
 *   mb own   THREADS PAIRS LIVE   each thread keeps LIVE/THREADS blocks and replaces a random one,
 *                                 PAIRS/THREADS times
 *   mb hot   THREADS PAIRS LIVE   the same with one call stack and blocks of 64 bytes
 *   mb cross LANES   PAIRS 0      LANES threads allocate, LANES others free: every free is foreign
 *
 * Sizes are uniform in 16..1024; the first and last word of each block are written and read. A
 * stack has about 25 frames: 8 pairs of "path" frames, which differ by a path number out of 128,
 * and 2 "leaf" frames, 64 combinations: about 8192 different stacks. In the end 1000 blocks of 100
 * bytes stay: 500 below leak_a(), 500 below leak_b(). Prints a checksum on stdout (the same for the
 * same arguments) and nanoseconds per pair of malloc and free on stderr.
 *
 * With one thread that frees its own blocks, counting_starts() is called when half of the pairs are
 * left and counting_ends() when none is: marks for a tool that counts instructions.
 */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOINLINE __attribute__((noinline, noclone))
/* Keeps a call from becoming a jump, so that its caller stays on the stack. */
#define NOT_LAST() __asm__ volatile("" ::: "memory")

enum { LEAKED = 500, LEAK_BYTES = 100 };
enum { BATCH = 32, RING_SLOTS = 4096, PATH_DEPTH = 8, PATHS = 128, HOT_BYTES = 64 };

/* One producer, one consumer. */
struct ring {
	_Alignas(64) atomic_size_t head; /* written by the producer */
	_Alignas(64) atomic_size_t tail; /* written by the consumer */
	_Alignas(64) void *slot[RING_SLOTS];
};

struct worker {
	_Alignas(128)
		uint64_t random; /* no line of the processor's cache is shared by two workers */
	uint64_t path;
	uint64_t sum;
	void **live;
	size_t live_count;
	size_t todo;
	int hot;
	struct ring *ring;
};

NOINLINE void counting_starts(void);
NOINLINE void counting_ends(void);

NOINLINE void counting_starts(void)
{
	NOT_LAST();
}

NOINLINE void counting_ends(void)
{
	NOT_LAST();
}

static uint64_t next_random(struct worker *w)
{
	uint64_t x = w->random;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return w->random = x;
}

#define INNER(n) \
	static NOINLINE void *inner##n(size_t size_bytes) \
	{ \
		volatile char pad[16 + 8 * (n)]; \
		pad[0] = (char)size_bytes; \
		void *block = malloc(size_bytes); \
		if (!block) \
			abort(); \
		(void)pad[0]; \
		return block; \
	}
INNER(0)
INNER(1)
INNER(2)
INNER(3)
INNER(4)
INNER(5)
INNER(6)
INNER(7)
static void *(*const inner[8])(size_t) = {inner0, inner1, inner2, inner3,
					  inner4, inner5, inner6, inner7};

#define OUTER(n) \
	static NOINLINE void *outer##n(size_t size_bytes, unsigned which) \
	{ \
		volatile char pad[8 + 16 * (n)]; \
		pad[0] = (char)which; \
		void *block = inner[which & 7](size_bytes); \
		(void)pad[0]; \
		return block; \
	}
OUTER(0)
OUTER(1)
OUTER(2)
OUTER(3)
OUTER(4)
OUTER(5)
OUTER(6)
OUTER(7)
static void *(*const outer[8])(size_t, unsigned) = {outer0, outer1, outer2, outer3,
						    outer4, outer5, outer6, outer7};

static NOINLINE void drop(struct worker *w, void *block)
{
	size_t size_bytes = *(uint64_t *)block;

	w->sum += *(uint64_t *)((char *)block + size_bytes - 8);
	free(block);
}

static void ring_put(struct ring *r, void *block)
{
	size_t head = atomic_load_explicit(&r->head, memory_order_relaxed);

	while (head - atomic_load_explicit(&r->tail, memory_order_acquire) >= RING_SLOTS)
		sched_yield();
	r->slot[head % RING_SLOTS] = block;
	atomic_store_explicit(&r->head, head + 1, memory_order_release);
}

static NOINLINE void work(struct worker *w)
{
	for (int i = 0; i < BATCH && w->todo; i++, w->todo--) {
		uint64_t r = next_random(w);
		size_t size_bytes = 16 + (r & 1023) % 1009;
		unsigned leaf = (r >> 10) & 63;
		char *block = outer[leaf >> 3](size_bytes, leaf);

		*(uint64_t *)block = size_bytes;
		*(uint64_t *)(block + size_bytes - 8) = size_bytes * 3;
		w->sum += size_bytes;
		if (w->ring) {
			ring_put(w->ring, block);
			continue;
		}
		void **slot = &w->live[(r >> 20) % w->live_count];
		if (*slot)
			drop(w, *slot);
		*slot = block;
	}
}

/* The same for one stack and one size. */
static NOINLINE void work_hot(struct worker *w)
{
	size_t half = w->todo / 2;

	for (; w->todo; w->todo--) {
		void **slot = &w->live[(next_random(w) >> 20) % w->live_count];
		char *block = inner0(HOT_BYTES);

		*(uint64_t *)block = HOT_BYTES;
		*(uint64_t *)(block + HOT_BYTES - 8) = w->todo;
		if (*slot)
			drop(w, *slot);
		*slot = block;
		if (w->todo == half + 1)
			counting_starts();
	}
}

static NOINLINE void step(struct worker *w, int depth);

#define PATH(n) \
	static NOINLINE void path##n(struct worker *w, int depth) \
	{ \
		volatile char pad[8 + 8 * (n)]; \
		pad[0] = 0; \
		step(w, depth - 1); \
		w->sum += (unsigned char)pad[0]; \
	}
PATH(0)
PATH(1)
PATH(2)
PATH(3)
PATH(4)
PATH(5)
PATH(6)
PATH(7)
static void (*const path[8])(struct worker *, int) = {path0, path1, path2, path3,
						      path4, path5, path6, path7};

/* Which of the path functions comes next depends on path number and depth. */
static NOINLINE void step(struct worker *w, int depth)
{
	if (depth <= 0) {
		(w->hot ? work_hot : work)(w);
	} else {
		uint64_t h = (w->path + 1) * 0x9E3779B97F4A7C15u;

		h ^= (uint64_t)depth * 0xD1B54A32D192ED03u;
		h ^= h >> 29;
		h *= 0xBF58476D1CE4E5B9u;
		path[(h >> 32) & 7](w, depth);
	}
	NOT_LAST();
}

static void *produce(void *argument)
{
	struct worker *w = argument;
	size_t half = w->todo / 2;

	while (w->todo) {
		size_t before = w->todo;

		w->path = next_random(w) % PATHS;
		step(w, PATH_DEPTH);
		if (before > half && w->todo <= half && !w->hot)
			counting_starts();
	}
	counting_ends();
	return NULL;
}

static void *consume(void *argument)
{
	struct worker *w = argument;
	struct ring *r = w->ring;
	size_t tail = 0;

	while (tail < w->todo) {
		size_t head = atomic_load_explicit(&r->head, memory_order_acquire);

		if (head == tail)
			sched_yield();
		for (; tail != head; tail++)
			drop(w, r->slot[tail % RING_SLOTS]);
		atomic_store_explicit(&r->tail, tail, memory_order_release);
	}
	return NULL;
}

static NOINLINE void leak(void)
{
	void *volatile block = malloc(LEAK_BYTES);

	(void)block;
}

static NOINLINE void leak_a(void)
{
	for (int i = 0; i < LEAKED; i++)
		leak();
	NOT_LAST();
}

static NOINLINE void leak_b(void)
{
	for (int i = 0; i < LEAKED; i++)
		leak();
	NOT_LAST();
}

static void *must(void *memory)
{
	if (!memory)
		abort();
	return memory;
}

static struct worker *workers_new(int count)
{
	size_t size_bytes = (size_t)count * sizeof(struct worker);

	return memset(must(aligned_alloc(_Alignof(struct worker), size_bytes)), 0, size_bytes);
}

static void worker_init(struct worker *w, int number, size_t todo, size_t live_count, int cross)
{
	w->random = 88172645463325252u + (uint64_t)number * 7919;
	w->todo = todo;
	w->live_count = live_count ? live_count : 1;
	if (cross) {
		w->ring = must(aligned_alloc(64, sizeof(*w->ring)));
		memset(w->ring, 0, sizeof(*w->ring));
	} else {
		w->live = must(calloc(w->live_count, sizeof(void *)));
	}
}

static uint64_t worker_done(struct worker *w)
{
	for (size_t i = 0; w->live && i < w->live_count; i++)
		free(w->live[i]);
	free(w->live);
	free(w->ring);
	return w->sum;
}

static double now_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static uint64_t run(const char *how, int threads, size_t pairs, size_t live_count)
{
	struct worker *makers = workers_new(threads);
	struct worker *eaters = workers_new(threads);
	pthread_t *ids = must(calloc((size_t)threads * 2, sizeof(*ids)));
	int cross = !strcmp(how, "cross");
	uint64_t sum = 0;

	for (int i = 0; i < threads; i++) {
		makers[i].hot = !strcmp(how, "hot");
		worker_init(&makers[i], i, pairs / (size_t)threads, live_count / (size_t)threads,
			    cross);
		eaters[i].ring = makers[i].ring;
		eaters[i].todo = makers[i].todo;
	}
	double wall_ns = now_ns(CLOCK_MONOTONIC), cpu_ns = now_ns(CLOCK_PROCESS_CPUTIME_ID);
	if (threads == 1 && !cross) {
		produce(&makers[0]); /* the process stays single-threaded */
	} else {
		for (int i = 0; i < threads; i++) {
			pthread_create(&ids[i], NULL, produce, &makers[i]);
			if (cross)
				pthread_create(&ids[threads + i], NULL, consume, &eaters[i]);
		}
		for (int i = 0; i < threads * (cross ? 2 : 1); i++)
			pthread_join(ids[i], NULL);
	}
	fprintf(stderr, "wall_ns_per_pair %.1f\ncpu_ns_per_pair %.1f\n",
		(now_ns(CLOCK_MONOTONIC) - wall_ns) / (double)pairs,
		(now_ns(CLOCK_PROCESS_CPUTIME_ID) - cpu_ns) / (double)pairs);
	for (int i = 0; i < threads; i++)
		sum += worker_done(&makers[i]) + eaters[i].sum;
	free(makers);
	free(eaters);
	free(ids);
	return sum;
}

int main(int argc, char **argv)
{
	if (argc != 5 ||
	    (strcmp(argv[1], "own") && strcmp(argv[1], "hot") && strcmp(argv[1], "cross"))) {
		fprintf(stderr, "usage: mb own|hot|cross THREADS PAIRS LIVE\n");
		return 2;
	}
	uint64_t sum =
		run(argv[1], atoi(argv[2]), strtoull(argv[3], NULL, 0), strtoull(argv[4], NULL, 0));
	leak_a();
	leak_b();
	printf("sum %llu\n", (unsigned long long)sum);
	return 0;
}
