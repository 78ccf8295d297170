/* SPDX-License-Identifier: MIT */
/*
 * One thread loads and unloads libraries (the loader's lock), one throws exceptions (the unwinder
 * asks the loader), two allocate: nobody waits for anybody for ever.
 */
#include <atomic>
#include <dlfcn.h>
#include <stdexcept>
#include <string>
#include <thread>

extern "C" {
#include "program.h"
}

static std::atomic<bool> stop;

static void thrower(int *caught)
{
	while (!stop)
		try {
			throw std::runtime_error(std::string(200, 'x'));
		} catch (const std::exception &e) {
			*caught += e.what()[199] == 'x';
		}
}

static void worker()
{
	while (!stop)
		for (size_t i = 0; i < 100; i++)
			free(malloc(i * 7));
	mark(3777);
}

int main()
{
	int caught = 0;
	std::thread a(thrower, &caught), b(worker), c(worker);
	for (int i = 0; i < 150; i++) {
		void *library = dlopen("./libtwin_a.so", RTLD_NOW);
		if (!library)
			fail("libtwin_a.so");
		void *(*allocate)(size_t) = (void *(*)(size_t))dlsym(library, "twin_allocate");
		KEEP(allocate(1777));
		dlclose(library);
	}
	stop = true;
	a.join();
	b.join();
	c.join();
	say("caught %s\nprocess 1777x150 3777x2\n", caught > 0 ? "some" : "none");
	return 0;
}
