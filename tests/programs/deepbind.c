/* SPDX-License-Identifier: MIT */
/* A library with RTLD_DEEPBIND frees what getline and the program allocated, and the reverse. */
#include <dlfcn.h>

#include "program.h"

int main(void)
{
	void *library = dlopen("./libbinder.so", RTLD_NOW | RTLD_DEEPBIND);
	if (!library)
		fail("dlopen");
	void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "binder_allocate");
	void (*release)(void *) = (void (*)(void *))dlsym(library, "binder_free");
	int (*line)(void) = (int (*)(void))dlsym(library, "binder_line");
	int sum = 0;
	for (int i = 0; i < 100; i++) {
		sum += line();
		release(malloc(100));
		free(allocate(100));
		/* the same address again: an entry left behind by a free we did not see is replaced
		 */
		free(malloc(100));
	}
	mark(1777);
	say("lines %d\nprocess 1777x1\n", sum);
	return 0;
}
