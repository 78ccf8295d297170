/* SPDX-License-Identifier: MIT */
/*
 * An exception passes frames that own raw pointers (lost) and smart ones (freed).
 *
 * build: g++ -O0 -g
 * build: g++ -O2 -g
 * build: clang++ -O2 -g
 * leak: lost count=50 bytes=1000 frames=thrower,carrier@in_carrier,main@call
 * site: owned allocs=50 frees=50 bytes=1500
 * foreign: 1 72704
 */
#include <memory>
#include <stdexcept>

#include "scenario.h"

static NOINLINE void thrower(int i)
{
	char *raw = new char[20]; /* LEAK:lost */
	KEEP(raw);
	if (i >= 0)
		throw i;
	delete[] raw;
}

static NOINLINE void carrier(int i)
{
	std::unique_ptr<char[]> owned(new char[30]); /* AT:owned */
	KEEP(owned.get());
	thrower(i); /* AT:in_carrier */
	opaque_zero = 0;
}

int main()
{
	int sum = 0;
	for (int i = 0; i < 50; i++) {
		try {
			carrier(i); /* AT:call */
		} catch (int value) {
			sum += value;
		}
	}
	return sum != 1225;
}
