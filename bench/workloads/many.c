/* SPDX-License-Identifier: MIT */
/*
 * Many call stacks and many live blocks: what a report must be able to read.
 *
 *   many STACKS BLOCKS   STACKS is at most 100000
 *
 * A stack is one path through LEVELS levels of ten functions, by the digits of its number; each
 * level's function is entered through another one of its own. Sizes are mixed from 64 to 128 bytes.
 * Nothing is freed.
 */
#include <stdio.h>
#include <stdlib.h>

#define NOINLINE __attribute__((noinline, noclone))
/* Keeps a call from becoming a jump, so that its caller stays on the stack. */
#define NOT_LAST() __asm__ volatile("" ::: "memory")

enum { LEVELS = 5, STACKS_MAX = 100000 };

static size_t number; /* of the block: its size follows from it */

static NOINLINE void descend(unsigned rest, unsigned level);

#define STEP(n) \
	static NOINLINE void inner##n(unsigned rest, unsigned level) \
	{ \
		descend(rest, level); \
		NOT_LAST(); \
	} \
	static NOINLINE void outer##n(unsigned rest, unsigned level) \
	{ \
		inner##n(rest, level); \
		NOT_LAST(); \
	}
STEP(0)
STEP(1)
STEP(2)
STEP(3)
STEP(4)
STEP(5)
STEP(6)
STEP(7)
STEP(8)
STEP(9)
static void (*const step[10])(unsigned, unsigned) = {outer0, outer1, outer2, outer3, outer4,
						     outer5, outer6, outer7, outer8, outer9};

static NOINLINE void leaf(void)
{
	char *volatile block = malloc(64 + number * 7 % 65);

	if (!block)
		abort();
	*block = 1;
	number++;
}

static NOINLINE void descend(unsigned rest, unsigned level)
{
	if (level)
		step[rest % 10](rest / 10, level - 1);
	else
		leaf();
	NOT_LAST();
}

int main(int argc, char **argv)
{
	if (argc != 3) {
		fprintf(stderr, "usage: many STACKS BLOCKS\n");
		return 2;
	}
	size_t stacks = strtoull(argv[1], NULL, 0), blocks = strtoull(argv[2], NULL, 0);

	if (!stacks || stacks > STACKS_MAX)
		stacks = STACKS_MAX;
	for (size_t i = 0; i < blocks; i++)
		descend((unsigned)(i % stacks), LEVELS);
	return 0;
}
