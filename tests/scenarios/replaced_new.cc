/* SPDX-License-Identifier: MIT */
/*
 * A program with its own operator new and delete: blocks are found below its operator.
 *
 * build: g++ -O1 -g -Wno-mismatched-new-delete
 * leak: own count=4 bytes=160 frames=operator\ new,main
 * foreign: 1 72704
 * valgrind: replaces the program's operators too
 */
#include <cstdlib>
#include <new>

#include "scenario.h"

void *operator new(size_t size)
{
	void *p = malloc(size + 16); /* LEAK:own */
	if (!p)
		throw std::bad_alloc();
	return p;
}

void operator delete(void *p) noexcept
{
	free(p);
}

void operator delete(void *p, size_t) noexcept
{
	free(p);
}

struct Item {
	char room[24];
};

int main()
{
	for (int i = 0; i < 5; i++) {
		auto *item = new Item;
		KEEP(item);
		if (i == 0)
			delete item;
	}
	return 0;
}
