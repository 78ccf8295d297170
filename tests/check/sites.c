/* SPDX-License-Identifier: MIT */
/*
 * Two places that allocate through the same function, for the options that name call sites. Cases
 * of run_sites.py.
 */
#include "say.h"

#include <pthread.h>
#include <sys/wait.h>

enum { SIZE = 100, LARGE = 9000 };

__attribute__((noinline)) static byte *make(size_t size)
{
	byte *p = malloc(size);
	p[0] = 1;
	return p;
}

__attribute__((noinline)) static byte *first(size_t size)
{
	byte *p = make(size);
	say_pointer("first", p);
	return p;
}

__attribute__((noinline)) static byte *second(size_t size)
{
	byte *p = make(size);
	say_pointer("second", p);
	return p;
}

/* `first` is frame number depth + 2. */
__attribute__((noinline)) static byte *deep(int depth)
{
	byte *p = depth ? deep(depth - 1) : make(SIZE);
	p[1] = 2;
	return p;
}

__attribute__((noinline)) static byte *first_deep(int depth)
{
	byte *p = deep(depth);
	say_pointer("deep", p);
	return p;
}

/* Both stay, so that reports tell of them. */
static void keep(void)
{
	first(SIZE);
	second(SIZE);
}

static void damage_both(void)
{
	byte *p = first(SIZE), *q = second(SIZE);
	p[SIZE] = q[SIZE] = 1;
	free(p);
	free(q);
}

static void use_both_after_free(void)
{
	byte *p = first(SIZE), *q = second(SIZE);
	free(p);
	free(q);
	p[3] = q[3] = 1;
}

static void fill_both(void)
{
	byte *p = first(SIZE), *q = second(SIZE);
	say("first_filled", (unsigned long)(SIZE - 1 - wrong(p + 1, SIZE - 1, 0xeb)));
	say("second_filled", (unsigned long)(SIZE - 1 - wrong(q + 1, SIZE - 1, 0xeb)));
	free(p);
	free(q);
}

/* Reads behind the ends, so often that every nth block comes. */
static void read_behind_both(void)
{
	for (int i = 0; i < 6; i++) {
		volatile byte *p = first(SIZE), *q = second(SIZE);
		say("read", (unsigned long)(p[SIZE + 12] + q[SIZE + 12]) & 0);
		free((void *)p);
		free((void *)q);
	}
}

static void damage_both_deep(void)
{
	byte *p = first_deep(13), *q = first_deep(14);
	p[SIZE] = q[SIZE] = 1;
	free(p);
	free(q);
}

static void *damage_in_thread(void *unused)
{
	damage_both();
	return unused;
}

static void damage_both_in_a_thread(void)
{
	pthread_t t;
	pthread_create(&t, NULL, damage_in_thread, NULL);
	pthread_join(t, NULL);
}

static void damage_both_in_a_child(void)
{
	int status;
	free(second(SIZE));
	pid_t child = fork();
	if (!child) {
		damage_both();
		_exit(0);
	}
	waitpid(child, &status, 0);
	say("status", (unsigned long)status);
}

/* What is left out grows and shrinks as any other block. */
static void move_both(void)
{
	byte *p = first(SIZE), *q = second(SIZE);
	for (size_t size = SIZE; size <= LARGE; size += 500) {
		p = realloc(p, size);
		q = realloc(q, size);
	}
	say("kept", (unsigned long)(p[0] + q[0]));
	free(realloc(p, 10));
	free(realloc(q, 10));
}

#define CASE(name) \
	{ \
#name, name \
	}
static const struct say_case cases[] = {
	CASE(keep),
	CASE(damage_both),
	CASE(use_both_after_free),
	CASE(fill_both),
	CASE(read_behind_both),
	CASE(damage_both_deep),
	CASE(damage_both_in_a_thread),
	CASE(damage_both_in_a_child),
	CASE(move_both),
};

int main(int argc, char **argv)
{
	return say_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
