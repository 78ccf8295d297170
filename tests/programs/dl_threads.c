/* SPDX-License-Identifier: MIT */
/* Two threads load, use and unload libraries while two others allocate and unwind through
 * everything. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

#include "program.h"

static atomic_int stop;

static void *loader(void *argument)
{
	const char *path = argument ? "./libtwin_b.so" : "./libtwin_a.so";
	for (int i = 0; i < 150; i++) {
		void *library = dlopen(path, RTLD_NOW);
		if (!library)
			fail(path);
		void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "twin_allocate");
		KEEP(allocate(argument ? 2777 : 1777));
		dlclose(library);
	}
	return argument;
}

static void *worker(void *argument)
{
	while (!atomic_load(&stop))
		for (size_t i = 0; i < 100; i++)
			free(malloc(i * 3));
	mark(3777);
	return argument;
}

int main(void)
{
	pthread_t thread[4];
	for (size_t i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, i < 2 ? loader : worker, (void *)(i & 1)))
			fail("pthread_create");
	for (int i = 0; i < 2; i++)
		pthread_join(thread[i], NULL);
	atomic_store(&stop, 1);
	for (int i = 2; i < 4; i++)
		pthread_join(thread[i], NULL);
	say("process 1777x150 2777x150 3777x2\n");
	return 0;
}
