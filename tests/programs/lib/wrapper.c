/* SPDX-License-Identifier: MIT */
/* A malloc wrapper in the usual style: dlsym(RTLD_NEXT), and a count that it prints at exit. */
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>

static void *(*next_malloc)(size_t);
static void (*next_free)(void *);
static volatile long mallocs_of_777;

void *malloc(size_t size)
{
	if (!next_malloc)
		next_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	if (size % 1000 == 777)
		mallocs_of_777++;
	return next_malloc(size);
}

void free(void *p)
{
	if (!next_free)
		next_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	next_free(p);
}

__attribute__((destructor)) static void at_end(void)
{
	if (write(1, mallocs_of_777 == 40 ? "wrapper saw 40\n" : "wrapper saw else\n", 15) < 0)
		_exit(97);
}
