/* SPDX-License-Identifier: MIT */
/*
 * A callback that libc calls: the stack runs through libc's frames back to main.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * leak: search count=2 bytes=16 frames=compare_search,...,main@call_search
 * leak: sort frames=compare_sort,...,main@call_sort sites=0
 */
#include <stdlib.h>

#include "scenario.h"

static int compare_search(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;
	KEEP(malloc(8)); /* LEAK:search */
	return (x > y) - (x < y);
}

static int compare_sort(const void *a, const void *b)
{
	int x = *(const int *)a, y = *(const int *)b;
	void *p = malloc(16); /* LEAK:sort */
	KEEP(p);
	free(p);
	return (x > y) - (x < y);
}

int main(void)
{
	int values[8] = {5, 3, 8, 1, 9, 2, 7, 4};
	int key = 2;
	qsort(values, 7, sizeof(values[0]), compare_sort); /* AT:call_sort */
	const int *found =
		bsearch(&key, values, 7, sizeof(values[0]), compare_search); /* AT:call_search */
	return (found && *found == 2) ? 0 : 1;
}
