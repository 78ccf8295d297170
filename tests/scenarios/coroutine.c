/* SPDX-License-Identifier: MIT */
/*
 * Two coroutines on stacks of their own leak in turn; neither stack shows the other's frames.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * leak: ping count=10 bytes=130 frames=ping sites=1
 * leak: pong count=10 bytes=140 frames=pong sites=1
 * leak: back count=10 bytes=150 frames=main sites=1
 * valgrind: splits stacks at a switch
 */
#include <stdlib.h>
#include <ucontext.h>

#include "scenario.h"

static ucontext_t main_context, ping_context, pong_context;
static char ping_stack[65536], pong_stack[65536];

static void ping(void)
{
	for (;;) {
		KEEP(malloc(13)); /* LEAK:ping */
		swapcontext(&ping_context, &pong_context);
	}
}

static void pong(void)
{
	for (;;) {
		KEEP(malloc(14)); /* LEAK:pong */
		swapcontext(&pong_context, &main_context);
	}
}

static void prepare(ucontext_t *context, char *stack, void (*body)(void))
{
	getcontext(context);
	context->uc_stack.ss_sp = stack;
	context->uc_stack.ss_size = 65536;
	makecontext(context, body, 0);
}

int main(void)
{
	prepare(&ping_context, ping_stack, ping);
	prepare(&pong_context, pong_stack, pong);
	for (int i = 0; i < 10; i++) {
		swapcontext(&main_context, &ping_context);
		KEEP(malloc(15)); /* LEAK:back */
	}
	return 0;
}
