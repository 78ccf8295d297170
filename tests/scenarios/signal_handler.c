/* SPDX-License-Identifier: MIT */
/*
 * A signal handler leaks; its stack goes on through the signal frame into what was interrupted.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * leak: handler count=2 bytes=400 frames=on_signal,...,interrupted,main@call
 * leak: trap count=1 bytes=60 frames=on_trap,...,interrupted@trap_here,main@call
 */
#include <signal.h>
#include <stdlib.h>

#include "scenario.h"

static void on_signal(int number)
{
	KEEP(malloc(200)); /* LEAK:handler */
}

static void on_trap(int number)
{
	KEEP(malloc(60)); /* LEAK:trap */
}

static NOINLINE void interrupted(void)
{
	raise(SIGUSR1);
	raise(SIGUSR1);
	__asm__ volatile("int3"); /* AT:trap_here */
	opaque_zero = 0;
}

int main(void)
{
	signal(SIGUSR1, on_signal);
	signal(SIGTRAP, on_trap);
	interrupted(); /* AT:call */
	return (int)opaque_zero;
}
