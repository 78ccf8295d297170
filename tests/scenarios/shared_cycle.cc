/* SPDX-License-Identifier: MIT */
/*
 * Two shared objects that own each other are never destroyed.
 *
 * build: g++ -O1 -g -std=c++17
 * build: clang++ -O2 -g -std=c++17
 * leak: first count=1 bytes=32 frames=main
 * leak: second count=1 bytes=32 frames=main
 * foreign: 1 72704
 */
#include <memory>

#include "scenario.h"

struct Node {
	std::shared_ptr<Node> other;
};

int main()
{
	auto a = std::make_shared<Node>(); /* LEAK:first */
	auto b = std::make_shared<Node>(); /* LEAK:second */
	a->other = b;
	b->other = a;
	auto c = std::make_shared<Node>();
	KEEP(c.get());
	return 0;
}
