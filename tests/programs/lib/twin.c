/* SPDX-License-Identifier: MIT */
/* Built twice with different NAMEs: two libraries of equal layout, so one reuses the other's
 * addresses. */
#include <stdlib.h>

void *NAME(size_t size);
void *twin_allocate(size_t size);

__attribute__((noinline)) void *NAME(size_t size)
{
	char *p = malloc(size);
	if (p)
		p[0] = 1;
	return p;
}

void *twin_allocate(size_t size)
{
	char *p = NAME(size);
	if (p)
		p[0] = 2;
	return p;
}
