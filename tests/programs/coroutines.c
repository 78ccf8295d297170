/* SPDX-License-Identifier: MIT */
/*
 * Coroutine stacks that are mapped, used and unmapped again and again at the same addresses,
 * entered from different callers at equal stack pointers.
 */
#include <sys/mman.h>
#include <ucontext.h>

#include "program.h"

enum { STACK = 65536 };
static ucontext_t main_context, context;

static void body_one(void)
{
	mark(1777);
	free(mark(3777));
	swapcontext(&context, &main_context);
}

static void body_two(void)
{
	mark(2777);
	swapcontext(&context, &main_context);
	fail("resumed");
}

static void run(void (*body)(void))
{
	char *stack = mmap(NULL, STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	getcontext(&context);
	context.uc_stack.ss_sp = stack;
	context.uc_stack.ss_size = STACK;
	makecontext(&context, body, 0);
	swapcontext(&main_context, &context);
	munmap(stack, STACK);
}

int main(void)
{
	for (int i = 0; i < 500; i++) {
		run(body_one);
		run(body_two);
	}
	say("process 1777x500 2777x500\n");
	return 0;
}
