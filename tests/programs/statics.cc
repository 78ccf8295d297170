/* SPDX-License-Identifier: MIT */
/*
 * Function-local statics with destructors, and 10,000 functions to be called at exit besides: the C
 * library allocates its list of them piece by piece; each frees and allocates when it is called.
 */
#include <string>
#include <utility>

extern "C" {
#include "program.h"
int __cxa_atexit(void (*function)(void *), void *argument, void *library);
extern void *__dso_handle;
}

enum { STATICS = 60, FUNCTIONS = 10000 };
static int made, ended;

template <int N> struct counted {
	std::string text;
	counted() : text(100 + N, 'x')
	{
		made++;
	}
	~counted()
	{
		free(malloc(10 + N));
		if (++ended == STATICS + FUNCTIONS) {
			mark(2777);
			say("ended %d\n", ended);
		}
	}
};

template <int N> static void *one()
{
	static counted<N> it;
	return &it;
}

template <int... N> static void all(std::integer_sequence<int, N...>)
{
	void *at[] = {one<N>()...};
	KEEP(at[0]);
}

static void at_exit(void *block)
{
	free(block);
	free(malloc(50));
	ended++;
}

int main()
{
	all(std::make_integer_sequence<int, STATICS>());
	for (int i = 0; i < FUNCTIONS; i++)
		if (__cxa_atexit(at_exit, malloc(20), __dso_handle))
			fail("__cxa_atexit");
	mark(1777);
	say("made %d\nprocess 1777x1 2777x1\n", made);
	return 0;
}
