/* SPDX-License-Identifier: MIT */
/*
 * Standard containers that are never destroyed: object, storage and elements.
 *
 * build: g++ -O0 -g -std=c++17
 * build: g++ -O2 -g -std=c++17
 * leak: vector count=1 bytes=24 frames=main
 * leak: reserve count=1 bytes=4000 frames=main
 * leak: map count=1 bytes=48 frames=main
 * leak: insert count=100 bytes=4000 frames=main
 * leak: string count=1 bytes=32 frames=main
 * leak: text count=1 bytes=101 frames=main
 * foreign: 1 72704
 */
#include <map>
#include <string>
#include <vector>

#include "scenario.h"

int main()
{
	auto *v = new std::vector<int>; /* LEAK:vector */
	v->reserve(1000); /* LEAK:reserve */
	auto *m = new std::map<int, int>; /* LEAK:map */
	for (int i = 0; i < 100; i++)
		m->emplace(i, i); /* LEAK:insert */
	auto *s = new std::string; /* LEAK:string */
	s->assign(100, 'x'); /* LEAK:text */
	KEEP(v), KEEP(m), KEEP(s);
	std::vector<int> freed(500);
	KEEP(freed.data());
	return 0;
}
