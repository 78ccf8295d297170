/* SPDX-License-Identifier: MIT */
/*
 * A signal handler leaks; its stack goes on through the signal frame into what was interrupted, at
 * the very instruction: the one that faulted, not the one before it.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * build: clang -O2 -g
 * leak: handler count=2 bytes=400 frames=on_signal,...,interrupted,main@call
 * leak: fault count=1 bytes=60 frames=on_fault,...,interrupted@fault_here,main@call
 * valgrind: names the line before the fault
 */
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>

#include "scenario.h"

static sigjmp_buf back;

static void on_signal(int number)
{
	KEEP(malloc(200)); /* LEAK:handler */
}

static void on_fault(int number)
{
	KEEP(malloc(60)); /* LEAK:fault */
	siglongjmp(back, 1);
}

static NOINLINE void interrupted(void)
{
	raise(SIGUSR1);
	raise(SIGUSR1);
	opaque_zero = 0;
	__asm__ volatile("ud2"); /* AT:fault_here */
	opaque_zero = 0;
}

int main(void)
{
	signal(SIGUSR1, on_signal);
	signal(SIGILL, on_fault);
	if (!sigsetjmp(back, 1))
		interrupted(); /* AT:call */
	return (int)opaque_zero;
}
