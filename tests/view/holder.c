/* SPDX-License-Identifier: MIT */
/*
 * Holds blocks of known sizes at known places, says so, and waits for its standard input to end:
 *
 *	holder [N]	7 blocks of 1234 (hold_seven), 3 of 555 through an inlined function
 *			(hold_inlined), N of 24 at one place (hold_many, 0 if not given), and as
 *many again by turns at two places of one depth (hold_left and hold_right)
 */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

static void *kept[64];
static void **many;
static volatile int three = 3; /* not known to the compiler: a loop stays one place */

NOINLINE static void hold_seven(void)
{
	for (int i = 0; i < 7; i++)
		kept[i] = malloc(1234);
	__asm__ volatile("" ::: "memory");
}

static inline __attribute__((always_inline)) void *inner(size_t size)
{
	void *block = malloc(size);

	__asm__ volatile("" : "+r"(block)::"memory");
	return block;
}

NOINLINE static void hold_inlined(void)
{
	for (int i = 0; i < three; i++)
		kept[10 + i] = inner(555);
	__asm__ volatile("" ::: "memory");
}

NOINLINE static void *hold_left(void)
{
	void *block = malloc(40);

	__asm__ volatile("" : "+r"(block)::"memory");
	return block;
}

NOINLINE static void *hold_right(void)
{
	void *block = malloc(40);

	__asm__ volatile("" : "+r"(block)::"memory");
	return block;
}

NOINLINE static void hold_many(size_t count)
{
	for (size_t i = 0; i < count; i++)
		many[i] = malloc(24);
	for (size_t i = 0; i < count; i++)
		many[count + i] = i % 2 ? hold_right() : hold_left();
	__asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv)
{
	size_t count = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
	char c;

	many = calloc(2 * count + 1, sizeof(*many));
	if (!many)
		return 2;
	hold_seven();
	hold_inlined();
	hold_many(count);
	if (write(STDOUT_FILENO, "ready\n", 6) != 6)
		return 2;
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	return 0;
}
