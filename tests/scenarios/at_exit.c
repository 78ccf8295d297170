/* SPDX-License-Identifier: MIT */
/*
 * Leaks in atexit handlers and in constructors and destructors of the program.
 *
 * leak: constructor count=1 bytes=41 frames=construct
 * leak: handler count=1 bytes=42 frames=at_exit_handler
 * leak: destructor count=1 bytes=43 frames=destruct
 */
#include <stdlib.h>

#include "scenario.h"

__attribute__((constructor)) static void construct(void)
{
	KEEP(malloc(41)); /* LEAK:constructor */
}

__attribute__((destructor)) static void destruct(void)
{
	KEEP(malloc(43)); /* LEAK:destructor */
}

static void at_exit_handler(void)
{
	KEEP(malloc(42)); /* LEAK:handler */
}

int main(void)
{
	return atexit(at_exit_handler);
}
