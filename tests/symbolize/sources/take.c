/* SPDX-License-Identifier: MIT */
/* What the call sites call, and a program around them. */
#include "chain.h"

void outer(int n);
void shown(int n);
void *volatile kept;

__attribute__((noinline)) void *take(int n)
{
	__asm__ volatile("" : "+r"(n));
	return n ? (void *)&kept : (void *)0;
}

#ifndef NO_MAIN
int main(int argc, char **argv)
{
	outer(argc);
	shown(argc);
	return 0;
}
#endif
