/* SPDX-License-Identifier: MIT */
#ifndef MT_PROGRAMS_PROGRAM_H
#define MT_PROGRAMS_PROGRAM_H

/*
 * What the programs share. A block whose size ends in 777 is a mark: the driver finds it in the
 * state file. A program prints one line `process SIZExCOUNT ...` for each state file that must
 * exist, with the marks that are live in it at the end, and whatever else it saw, the same with and
 * without memtrack. Output goes through write(), because stdio allocates.
 */

#include <fcntl.h>
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

/* Allocations from `depth` + 1 call stacks. */
static __attribute__((noinline, unused)) void allocate_deep(int depth)
{
	KEEP(depth % 3 ? malloc(40) : calloc(1, 50));
	if (depth)
		allocate_deep(depth - 1);
	opaque_zero = 0;
}

/* The line "Rss:" of all mappings together, in KiB, into a file. */
static __attribute__((unused)) void note_memory(const char *path)
{
	static char text[4096], line[64];
	int in = open("/proc/self/smaps_rollup", O_RDONLY),
	    out = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	ssize_t n = read(in, text, sizeof(text) - 1);
	char *at = n > 0 ? strstr(text, "Rss:") : NULL;
	if (!at || out < 0)
		fail("smaps_rollup");
	int len = snprintf(line, sizeof(line), "%ld\n", strtol(at + 4, NULL, 10));
	if (write(out, line, (size_t)len) != len)
		fail(path);
	close(in);
	close(out);
}

#endif
