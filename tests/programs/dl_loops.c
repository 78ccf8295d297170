/* SPDX-License-Identifier: MIT */
/* dlopen and dlclose in turn of two libraries that take the same addresses; a private namespace. */
#include <dlfcn.h>

#include "program.h"

static void *use(const char *path, size_t size)
{
	void *library = dlopen(path, RTLD_NOW);
	if (!library)
		fail(path);
	void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "twin_allocate");
	KEEP(allocate(size));
	dlclose(library);
	return (void *)allocate;
}

int main(void)
{
	int same = 0;
	for (int i = 0; i < 100; i++) {
		void *a = use("./libtwin_a.so", 1777);
		void *b = use("./libtwin_b.so", 2777);
		same += a == b;
	}
	say("addresses reused %s\n", same > 90 ? "yes" : "no");
	for (int i = 0; i < 20; i++) {
		void *library = dlmopen(LM_ID_NEWLM, "./libtwin_a.so", RTLD_NOW);
		if (!library)
			fail("dlmopen");
		void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "twin_allocate");
		if (!allocate(100))
			fail("allocation in a namespace");
		dlclose(library);
	}
	say("process 1777x100 2777x100\n");
	return 0;
}
