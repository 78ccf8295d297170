/* SPDX-License-Identifier: MIT */
#ifndef CHAIN_H
#define CHAIN_H
/* Functions that are inlined into each other; the test knows the line numbers: keep them. */
void *take(int n);
static inline __attribute__((always_inline)) void *innermost(int n)
{
	return take(n + 1); /* line 8 */
}
static inline __attribute__((always_inline)) void *middle(int n)
{
	void *p = innermost(n * 2);  /* line 12 */
	return p ? innermost(n) : p; /* line 13 */
}
#endif
