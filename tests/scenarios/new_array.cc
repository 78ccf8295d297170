/* SPDX-License-Identifier: MIT */
/*
 * new[] of a class with a destructor stores the count in front: 8 bytes more.
 *
 * (libstdc++ jumps from operator new[] on to operator new, so both have that frame.)
 *
 * build: g++ -O0 -g
 * build: g++ -O2 -g
 * leak: cookie count=1 bytes=128 frames=main via="operator new"
 * leak: plain count=1 bytes=120 frames=main via="operator new"
 * foreign: 1 72704
 */
#include "scenario.h"

struct WithDestructor {
	int value[3];
	NOINLINE ~WithDestructor() { opaque_zero = 0; }
};
struct Plain {
	int value[3];
};

int main()
{
	KEEP(new WithDestructor[10]); /* LEAK:cookie */
	KEEP(new Plain[10]); /* LEAK:plain */
	WithDestructor *freed = new WithDestructor[5];
	KEEP(freed);
	delete[] freed;
	return 0;
}
