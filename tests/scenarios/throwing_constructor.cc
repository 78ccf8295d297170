/* SPDX-License-Identifier: MIT */
/*
 * When a constructor throws, its object's memory is freed and only what it lost itself leaks.
 *
 * build: g++ -O0 -g
 * build: g++ -O2 -g
 * leak: inside count=10 bytes=330 frames=Bad::Bad,main@make
 * site: make allocs=10 frees=10 bytes=1000
 * foreign: 1 72704
 */
#include <stdexcept>

#include "scenario.h"

struct Bad {
	char room[100];
	NOINLINE Bad()
	{
		KEEP(new char[33]); /* LEAK:inside */
		throw 1;
	}
};

int main()
{
	int caught = 0;
	for (int i = 0; i < 10; i++) {
		try {
			KEEP(new Bad); /* AT:make */
		} catch (int) {
			caught++;
		}
	}
	return caught != 10;
}
