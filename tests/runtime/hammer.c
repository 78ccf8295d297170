/* SPDX-License-Identifier: MIT */
/*
 * Threads that allocate, resize and free each other's blocks through the link-time door, so that a
 * sanitizer sees the tracker's own code. Sums are compared with the tracker's at the end.
 */
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <memtrack.h>

enum { THREADS = 8, POOL = 2048 };

struct block {
	void *p;
	size_t size;
	uint32_t heap;
};

struct counts {
	uint64_t allocs, bytes, frees, freed_bytes;
} __attribute__((aligned(128)));

static struct counts count[THREADS];
static struct block pool[POOL];
static int taken[POOL];
static _Atomic int stop;
static uint32_t heaps[2];
static struct memtrack_stats before, after;

static char text[100000];

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void *allocate(uint64_t r, size_t size)
{
	void *p = NULL;
	switch (r % 12) {
	case 0:
		return calloc(1, size);
	case 1:
		return posix_memalign(&p, 64, size) ? NULL : p;
	case 2:
		return memalign(32, size);
	case 3:
		return realloc(NULL, size);
	case 4:
		return reallocarray(NULL, 1, size);
	case 5:
		return size % 16 ? malloc(size) : aligned_alloc(16, size);
	case 6:
		return valloc(size);
	case 7:
		return pvalloc(size);
	case 8:
		return memtrack_malloc(size, __FILE__, __LINE__);
	case 9: /* the byte behind the end is counted by the function itself */
		return memtrack_strndup(text, size - 1, __FILE__, __LINE__);
	default:
		return malloc(size);
	}
}

static void fill(struct counts *c, struct block *b, uint64_t r)
{
	b->size = r % 100 ? r / 100 % 500 + 1 : 32768 + r / 100 % 65536;
	b->p = allocate(r >> 8, b->size);
	b->heap = r >> 20 & 7 ? 0 : heaps[r >> 30 & 1];
	if (!b->p)
		abort();
	c->allocs++;
	c->bytes += b->size;
	if (b->heap)
		memtrack_heap_alloc(b->heap, b->p, b->size);
}

static void empty(struct counts *c, struct block *b)
{
	if (b->heap)
		memtrack_heap_free(b->heap, b->p);
	free(b->p);
	c->frees++;
	c->freed_bytes += b->size;
	b->p = NULL;
}

static void resize(struct counts *c, struct block *b, size_t size)
{
	if (b->heap)
		memtrack_heap_free(b->heap, b->p);
	b->heap = 0;
	b->p = size % 3 ? realloc(b->p, size) : reallocarray(b->p, 1, size);
	if (!b->p)
		abort();
	c->frees++;
	c->freed_bytes += b->size;
	c->allocs++;
	c->bytes += size;
	b->size = size;
}

/* A depth of its own for each kind of step, so that there are many sites. */
__attribute__((noinline)) static int step(struct counts *c, uint64_t r, uint32_t depth)
{
	if (depth)
		return step(c, r, depth - 1) + 1;
	uint32_t i = (uint32_t)(r >> 40) % POOL;
	if (__atomic_load_n(&taken[i], __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&taken[i], 1, __ATOMIC_ACQUIRE))
		return 0;
	if (!pool[i].p)
		fill(c, &pool[i], r);
	else if (r % 4 == 0)
		resize(c, &pool[i], r >> 12 & 1023 ? 100 + (r >> 22 & 7) : 40000);
	else
		empty(c, &pool[i]);
	__atomic_store_n(&taken[i], 0, __ATOMIC_RELEASE);
	return 0;
}

static void *work(void *argument)
{
	static const char *const labels[] = {"one", "two", "three", NULL};
	struct counts *c = argument;
	uint64_t seed = 0x9e3779b97f4a7c15u * (uint64_t)(c - count + 1);
	for (uint64_t n = 0; !stop; n++) {
		uint64_t r = next(&seed);
		if (n % 1000 == 0)
			memtrack_label_set(labels[r >> 50 & 3]);
		if (n % 5000 == 0)
			memtrack_stats_get(&(struct memtrack_stats){
				.struct_bytes = sizeof(struct memtrack_stats)});
		step(c, r, (uint32_t)(r >> 32) % 12);
	}
	return NULL;
}

/* Generations of threads, so that states of dead ones are used again. */
static void run_threads(int seconds)
{
	for (int i = 0; i < seconds; i++) {
		pthread_t thread[THREADS];
		struct timespec second = {1, 0};
		stop = 0;
		for (int t = 0; t < THREADS; t++)
			if (pthread_create(&thread[t], NULL, work, &count[t]))
				abort();
		nanosleep(&second, NULL);
		stop = 1;
		for (int t = 0; t < THREADS; t++)
			pthread_join(thread[t], NULL);
	}
}

static int differs(const char *what, uint64_t got, uint64_t wanted)
{
	if (got == wanted)
		return 0;
	fprintf(stderr, "hammer: %s: %ju, expected %ju\n", what, (uintmax_t)got, (uintmax_t)wanted);
	return 1;
}

int main(int argc, char **argv)
{
	struct counts all = {0};
	before.struct_bytes = after.struct_bytes = sizeof(before);
	memset(text, 'x', sizeof(text) - 1);
	heaps[0] = memtrack_heap_register("first");
	heaps[1] = memtrack_heap_register("second");
	free(malloc(1));
	if (memtrack_stats_get(&before) || !heaps[0] || !heaps[1]) {
		fprintf(stderr, "hammer: the tracker is off\n");
		return 1;
	}
	run_threads(argc > 1 ? atoi(argv[1]) : 3);
	memtrack_stats_get(&after);
	for (int t = 0; t < THREADS; t++) {
		all.allocs += count[t].allocs;
		all.bytes += count[t].bytes;
		all.frees += count[t].frees;
		all.freed_bytes += count[t].freed_bytes;
	}
	int bad = differs("allocs", after.allocs - before.allocs, all.allocs);
	bad |= differs("bytes", after.bytes - before.bytes, all.bytes);
	bad |= differs("frees", after.frees - before.frees, all.frees);
	bad |= differs("freed bytes", after.freed_bytes - before.freed_bytes, all.freed_bytes);
	bad |= differs("live bytes", after.live_bytes - before.live_bytes,
		       all.bytes - all.freed_bytes);
	if (after.peak_bytes + (uint64_t)THREADS * 65536 < after.live_bytes)
		bad |= differs("peak", after.peak_bytes, after.live_bytes);
	fprintf(stderr, "hammer: %ju allocations\n", (uintmax_t)all.allocs);
	return bad;
}
