/* SPDX-License-Identifier: MIT */
/*
 * Template instances, virtual functions, lambdas and namespaces have readable names.
 *
 * build: g++ -O1 -g -std=c++17
 * build: clang++ -O1 -g -std=c++17
 * leak: generic count=2 bytes=12
 * leak: virtual_call count=1 bytes=44 frames="(anonymous namespace)::Derived::work,main@call"
 * leak: lambda count=1 bytes=45
 * foreign: 1 72704
 */
#include <cstdlib>

#include "scenario.h"

template <typename T> NOINLINE void generic(T value)
{
	KEEP(new T(value)); /* LEAK:generic */
	opaque_zero = 0;
}

namespace {
struct Base {
	virtual void work() = 0;
};
struct Derived final : Base {
	NOINLINE void work() override
	{
		KEEP(malloc(44)); /* LEAK:virtual_call */
		opaque_zero = 0;
	}
};
}

int main()
{
	generic(1);
	generic(1.5);
	static Derived derived;
	Base *volatile base = &derived;
	base->work(); /* AT:call */
	auto lambda = [](size_t size) NOINLINE {
		KEEP(malloc(size)); /* LEAK:lambda */
		opaque_zero = 0;
	};
	lambda(45);
	return 0;
}
