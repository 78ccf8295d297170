/* SPDX-License-Identifier: MIT */
/*
 * Before main, before every constructor and after exit has begun: allocations larger than any
 * bootstrap pool, a failing dlsym, blocks that live until an exit handler frees them.
 */
#include <dlfcn.h>

#include "program.h"

enum { EARLY = 3000 };
static void *early[EARLY];
static int errors;

/* dlsym of a missing name formats a message, which allocates. */
static void look_for_nothing(void)
{
	errors += !dlsym(RTLD_DEFAULT, "no_such_function") && dlerror() != NULL;
}

#ifndef NO_PREINIT
static void before_all(int argc, char **argv, char **envp)
{
	look_for_nothing();
	for (int i = 0; i < EARLY / 2; i++)
		early[i] = malloc((size_t)i % 300);
	KEEP(calloc(1, 1001777));
}
__attribute__((section(".preinit_array"), used)) static void (*const first)(int, char **,
									    char **) = before_all;
enum { FIRST = EARLY / 2, RUNS = 2 };
#else
enum { FIRST = 0, RUNS = 1 };
#endif

static void free_early(void)
{
	for (int i = 0; i < EARLY; i++)
		free(early[i]);
	mark(3777);
	look_for_nothing();
	say("errors %d\n", errors);
}

__attribute__((constructor(101))) static void begin(void)
{
	look_for_nothing();
	for (int i = FIRST; i < EARLY; i++)
		early[i] = calloc((size_t)i % 40 + 1, 3);
	KEEP(calloc(1, 2001777));
	if (atexit(free_early))
		fail("atexit");
}

__attribute__((destructor)) static void end(void)
{
	free(mark(4777));
	mark(5777);
}

int main(void)
{
	mark(1777);
	say("process %s1777x1 2001777x1 3777x1 5777x1\n", RUNS == 2 ? "1001777x1 " : "");
	return 0;
}
