/* SPDX-License-Identifier: MIT */
/*
 * A leak in a function with variable arguments, with and without floating-point ones.
 *
 * build: gcc -O0 -g
 * build: gcc -O2 -g
 * build: clang -O2 -g
 * leak: sum count=1 bytes=15 frames=sum,main@ints sites=1
 * leak: average count=1 bytes=3 frames=average,main@doubles sites=1
 */
#include <stdarg.h>
#include <stdlib.h>

#include "scenario.h"

static NOINLINE int sum(int count, ...)
{
	va_list list;
	va_start(list, count);
	int total = 0;
	for (int i = 0; i < count; i++)
		total += va_arg(list, int);
	va_end(list);
	KEEP(malloc((size_t)total)); /* LEAK:sum */
	return total;
}

static NOINLINE double average(int count, ...)
{
	va_list list;
	va_start(list, count);
	double total = 0;
	for (int i = 0; i < count; i++)
		total += va_arg(list, double);
	va_end(list);
	KEEP(malloc((size_t)(total / count))); /* LEAK:average */
	return total;
}

int main(void)
{
	int bad = sum(3, 4, 5, 6) != 15;      /* AT:ints */
	bad |= average(2, 2.5, 4.25) != 6.75; /* AT:doubles */
	return bad;
}
