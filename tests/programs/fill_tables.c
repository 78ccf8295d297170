/* SPDX-License-Identifier: MIT */
/*
 * Fills one table of the tracker: modules (COUNT libraries DIR/0.so, DIR/1.so... at once), labels
 * (COUNT different ones, and as many blocks) with or without LONG texts, heaps, large blocks, or
 * threads that live at the same time. What was done by the malloc heap's calls here is printed as
 * `did ALLOCS FREES BYTES`; libraries and threads allocate more than that.
 */
#include <dlfcn.h>
#include <pthread.h>

#include "memtrack.h"
#include "program.h"

enum { SMALL = 1777, BIG = 40777, EACH = 50, LONG_NAME = 400 };

static struct {
	size_t allocs, frees, bytes;
} did;
static pthread_barrier_t all_here;

static void *allocate(size_t size)
{
	void *p = mark(size);
	__atomic_fetch_add(&did.allocs, 1, __ATOMIC_RELAXED);
	__atomic_fetch_add(&did.bytes, size, __ATOMIC_RELAXED);
	return p;
}

static void give_back(void *p)
{
	free(p);
	__atomic_fetch_add(&did.frees, 1, __ATOMIC_RELAXED);
}

static void fill_modules(int count, const char *directory)
{
	char path[512];
	for (int i = 0; i < count; i++) {
		snprintf(path, sizeof(path), "%s/%d.so", directory, i);
		void *library = dlopen(path, RTLD_NOW);
		if (!library)
			fail(dlerror());
		void *(*get)(size_t) = (void *(*)(size_t))dlsym(library, "twin_allocate");
		KEEP(get(SMALL));
		did.allocs++;
		did.bytes += SMALL;
	}
}

static void fill_labels(int count, int bytes)
{
	char text[LONG_NAME + 1];
	for (int i = 0; i < count; i++) {
		snprintf(text, sizeof(text), "%0*d", bytes, i);
		memtrack_label_set(text);
		allocate(SMALL);
	}
}

static void fill_heaps(int count)
{
	static char pool[4096];
	char name[32];
	for (int i = 0; i < count; i++) {
		snprintf(name, sizeof(name), "heap %d", i);
		uint32_t heap = memtrack_heap_register(name);
		memtrack_heap_alloc(heap, pool + i, 8);
		allocate(SMALL);
	}
}

static void fill_large(int count)
{
	void **block = malloc((size_t)count * sizeof(*block));
	did.allocs++;
	did.bytes += (size_t)count * sizeof(*block);
	for (int i = 0; i < count; i++)
		block[i] = allocate(BIG);
	for (int i = 0; i < count; i += 2)
		give_back(block[i]);
}

static void *work(void *argument)
{
	for (int i = 0; i < EACH; i++)
		allocate(SMALL);
	pthread_barrier_wait(&all_here);
	return argument;
}

static void fill_threads(int count)
{
	static pthread_t thread[4096];
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, 128 << 10);
	pthread_barrier_init(&all_here, NULL, (unsigned)count);
	for (int i = 0; i < count; i++)
		if (pthread_create(&thread[i], &attr, work, NULL))
			fail("pthread_create");
	for (int i = 0; i < count; i++)
		pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
	int count = argc > 2 ? atoi(argv[2]) : 0;
	const char *what = argc > 1 ? argv[1] : "";
	if (!strcmp(what, "modules") && argc > 3)
		fill_modules(count, argv[3]);
	else if (!strcmp(what, "labels"))
		fill_labels(count, 8);
	else if (!strcmp(what, "names"))
		fill_labels(count, LONG_NAME);
	else if (!strcmp(what, "heaps"))
		fill_heaps(count);
	else if (!strcmp(what, "large"))
		fill_large(count);
	else if (!strcmp(what, "threads") && count <= 4096)
		fill_threads(count);
	else
		fail("usage: fill_tables modules|labels|names|heaps|large|threads COUNT [DIR]");
	say("did %zu %zu %zu\n", did.allocs, did.frees, did.bytes);
	return 0;
}
