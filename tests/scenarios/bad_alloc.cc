/* SPDX-License-Identifier: MIT */
/*
 * operator new that cannot: bad_alloc through our frames, the new-handler, nothrow's null.
 *
 * build: g++ -O0 -g -Wno-alloc-size-larger-than
 * build: g++ -O2 -g -Wno-alloc-size-larger-than
 * leak: handler count=1 bytes=16 frames=handler
 * foreign: 1 72704
 * valgrind: ends the program when operator new fails
 */
#include <cstdlib>
#include <new>

#include "scenario.h"

static void handler()
{
	KEEP(malloc(16)); /* LEAK:handler */
	std::set_new_handler(nullptr);
}

int main()
{
	size_t huge = (size_t)1 << 62;
	int caught = 0;
	for (int i = 0; i < 3; i++) {
		try {
			KEEP(::operator new(huge + opaque_zero));
		} catch (const std::bad_alloc &) {
			caught++;
		}
	}
	std::set_new_handler(handler);
	try {
		KEEP(::operator new[](huge + opaque_zero));
	} catch (const std::bad_alloc &) {
		caught++;
	}
	if (::operator new(huge + opaque_zero, std::nothrow))
		return 1;
	return caught != 4;
}
