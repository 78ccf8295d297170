/* SPDX-License-Identifier: MIT */
/*
 * The program takes the addresses of the allocator's functions. Built without position-independent
 * code they are its own PLT entries, which every module then uses; they must not be taken for the
 * functions behind the hooks.
 */
#include <dlfcn.h>

#include "program.h"

static void *(*volatile allocate)(size_t) = malloc;
static void *(*volatile clear)(size_t, size_t) = calloc;
static void *(*volatile resize)(void *, size_t) = realloc;
static void (*volatile release)(void *) = free;

int main(void)
{
	void *(*found)(size_t) = (void *(*)(size_t))dlsym(RTLD_DEFAULT, "malloc");
	void *(*next)(size_t) = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	KEEP(allocate(1777));
	KEEP(clear(1, 2777));
	KEEP(resize(allocate(10), 3777));
	release(allocate(4777));
	KEEP(found(5777));
	if (!next)
		fail("RTLD_NEXT");
	release(next(100));
	KEEP(strdup("text"));
	say("found is the program's: %d\nprocess 1777x1 2777x1 3777x1 5777x1\n", found == allocate);
	return 0;
}
