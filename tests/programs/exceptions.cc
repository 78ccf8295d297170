/* SPDX-License-Identifier: MIT */
/* bad_alloc leaves operator new through hooked frames 10000 times; other exceptions pass allocations. */
#include <new>
#include <stdexcept>
#include <string>

extern "C" {
#include "program.h"
}

static volatile size_t huge = (size_t)1 << 62;

static int deep(int depth)
{
	std::string text(100 + (size_t)depth, 'x');
	if (!depth) {
		KEEP(::operator new(huge));
		return 0;
	}
	return deep(depth - 1) + (int)text.size();
}

int main()
{
	int caught = 0;
	for (int i = 0; i < 10000; i++) {
		try {
			deep(i % 20);
		} catch (const std::bad_alloc &) {
			caught++;
		}
	}
	for (int i = 0; i < 1000; i++) {
		try {
			KEEP(new char[1777]);
			throw std::runtime_error("text");
		} catch (const std::exception &) {
			caught++;
		}
	}
	say("caught %d\nprocess 1777x1000\n", caught);
	return 0;
}
