/* SPDX-License-Identifier: MIT */
#ifndef MT_TESTS_CHECK_SAY_H
#define MT_TESTS_CHECK_SAY_H

/*
 * What programs of these tests say: lines "NAME NUMBER" or "NAME 0xPOINTER" on standard output,
 * "-- NAME" on standard error. Nothing here allocates.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct say_case {
	const char *name;
	void (*run)(void);
};

/* Second argument of the program: how long a case goes on that could go on for ever. */
static long seconds = 1;

static inline void say(const char *name, unsigned long number)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%s %lu\n", name, number);
	if (write(1, line, (size_t)n) != n)
		_exit(99);
}

static inline void say_pointer(const char *name, const void *p)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "%s 0x%lx\n", name, (unsigned long)(uintptr_t)p);
	if (write(1, line, (size_t)n) != n)
		_exit(99);
}

static inline void mark(const char *name)
{
	char line[128];
	int n = snprintf(line, sizeof(line), "-- %s\n", name);
	if (write(2, line, (size_t)n) != n)
		_exit(99);
}

typedef unsigned char byte;

/* How many of n bytes are not the wanted one. */
static inline size_t wrong(const void *p, size_t n, int wanted)
{
	size_t found = 0;
	for (size_t i = 0; i < n; i++)
		found += ((const byte *)p)[i] != wanted;
	return found;
}

/* The case that the first argument names; 2: there is none. */
static inline int say_main(int argc, char **argv, const struct say_case *cases, size_t count)
{
	if (argc > 2)
		seconds = atol(argv[2]);
	for (size_t i = 0; argc > 1 && i < count; i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			return 0;
		}
	return 2;
}

#endif
