/* SPDX-License-Identifier: MIT */
/*
 * A leak in a std::thread's function and in its thread_local object's destructor.
 *
 * build: g++ -O1 -g -pthread
 * leak: body count=2 bytes=122 frames=body
 * leak: local count=2 bytes=124 frames=Local::~Local
 * foreign: any
 */
#include <cstdlib>
#include <thread>

#include "scenario.h"

struct Local {
	int value;
	NOINLINE ~Local()
	{
		KEEP(malloc(62)); /* LEAK:local */
		opaque_zero = 0;
	}
};
static thread_local Local local;

static NOINLINE void body()
{
	local.value = 1;
	KEEP(malloc(61)); /* LEAK:body */
}

int main()
{
	for (int i = 0; i < 2; i++)
		std::thread(body).join();
	return 0;
}
