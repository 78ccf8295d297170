/* SPDX-License-Identifier: MIT */
#ifndef MT_PROGRAMS_PROGRAM_H
#define MT_PROGRAMS_PROGRAM_H

/*
 * What the programs share. A block whose size ends in 777 is a mark: the driver finds it in the
 * state file. A program prints one line `process SIZExCOUNT ...` for each state file that must
 * exist, with the marks that are live in it at the end, and whatever else it saw, the same with and
 * without memtrack. Output goes through write(), because stdio allocates.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *volatile kept __attribute__((unused));
static volatile size_t opaque_zero __attribute__((unused));
#define KEEP(expression) ((void)(kept = (void *)(expression)))

static __attribute__((format(printf, 1, 2), unused)) void say(const char *format, ...)
{
	char text[512];
	va_list list;
	va_start(list, format);
	int length = vsnprintf(text, sizeof(text), format, list);
	va_end(list);
	if (length > 0 && write(1, text, (size_t)length) != length)
		_exit(99);
}

static __attribute__((unused)) void fail(const char *what)
{
	say("failed: %s\n", what);
	_exit(98);
}

/* A marked block: size must end in 777. */
static __attribute__((noinline, unused)) void *mark(size_t size)
{
	char *p = (char *)malloc(size + opaque_zero);
	if (!p)
		fail("malloc");
	p[0] = 1;
	KEEP(p);
	return p;
}

#endif
