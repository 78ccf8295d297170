/* SPDX-License-Identifier: MIT */
/* Call sites of take(); the test knows the line numbers: keep them. */
#include "chain.h"

extern void *volatile kept;

__attribute__((noinline)) void outer(int n)
{
	kept = middle(n); /* line 9: two call sites by way of chain.h */
	kept = take(n);   /* line 10 */
}

static __attribute__((noinline)) void hidden(int n)
{
	kept = take(n + 2); /* line 15 */
}

void shown(int n)
{
	hidden(n);
	kept = take(n + 3); /* line 21 */
}
