/* SPDX-License-Identifier: MIT */
/* Blocks of many sizes against inaccessible pages (guard_page). Cases of run_pages.py. */
#include "say.h"

#include <malloc.h>
#include <pthread.h>
#include <sys/resource.h>

static const size_t sizes[] = {1,     100,   4096,   4097,   5008,   16384,
			       16385, 65537, 200000, 262145, 1 << 20};
enum { SIZES = sizeof(sizes) / sizeof(sizes[0]), MEBI = 1 << 20, MANY = 40 };

/* Both make a fault if the page is inaccessible. */
static void read_at(const byte *p)
{
	(void)*(const volatile byte *)p;
}

static void write_at(byte *p)
{
	*(volatile byte *)p = 1;
}

/* The first address behind a block that does not lie in its last 16 bytes. */
static byte *behind(byte *p, size_t size)
{
	return (byte *)(((uintptr_t)p + size + 15) & ~(uintptr_t)15);
}

static void overflow(void)
{
	for (int i = 0; i < SIZES; i++) {
		byte *p = malloc(sizes[i]);
		say_pointer("p", p);
		memset(p, 7, sizes[i]);
		read_at(behind(p, sizes[i]));
		say("wrong", wrong(p, sizes[i], 7));
		free(p);
	}
}

/* Before the first page that the block needs; large slots have more. */
static void underflow(void)
{
	for (int i = 0; i < SIZES; i++) {
		byte *p = malloc(sizes[i]);
		uintptr_t page = (uintptr_t)p & ~(uintptr_t)4095;
		say_pointer("p", p);
		memset(p, 7, sizes[i]);
		write_at((byte *)page - 1);
		say("wrong", wrong(p, sizes[i], 7));
		free(p);
	}
}

static void use_after_free(void)
{
	for (int i = 0; i < SIZES; i++) {
		byte *p = malloc(sizes[i]);
		say_pointer("p", p);
		free(p);
		read_at(p + sizes[i] / 2);
		read_at(p);
		write_at(p + sizes[i] - 1);
	}
}

static void resize(void)
{
	size_t bad = 0;
	byte *p = malloc(1);
	*p = 7;
	for (int i = 1; i < SIZES; i++) {
		p = realloc(p, sizes[i]);
		bad += wrong(p, sizes[i - 1], 7) + (malloc_usable_size(p) != sizes[i]);
		memset(p, 7, sizes[i]);
	}
	for (int i = SIZES - 1; i-- > 0;) {
		p = realloc(p, sizes[i]);
		bad += wrong(p, sizes[i], 7);
	}
	free(p);
	for (int i = 0; i < SIZES; i++)
		for (size_t align = 16; align <= 8192; align *= 2) {
			p = memalign(align, sizes[i]);
			bad += (uintptr_t)p % align != 0;
			memset(p, 1, sizes[i]);
			free(p);
			p = calloc(sizes[i], 1);
			bad += wrong(p, sizes[i], 0);
			free(p);
		}
	say("bad", bad);
}

static void damage_beside(void)
{
	byte *p = memalign(64, 70010); /* 54 bytes are left in its last page */
	say_pointer("p", p);
	p[70012] = 1;
	free(p);
}

static void more_than_there_is_room_for(void)
{
	static byte *block[MANY];
	for (int i = 0; i < MANY; i++)
		memset(block[i] = malloc(MEBI), i, MEBI);
	for (int i = 0; i < MANY; i++)
		say("wrong", wrong(block[i], MEBI, i));
	for (int i = 0; i < MANY; i++)
		free(block[i]);
	byte *again = malloc(MEBI), *larger = malloc(MEBI + 1);
	memset(again, 1, MEBI);
	memset(larger, 1, MEBI + 1);
	free(again);
	free(larger);
}

static void *make_and_free(void *unused)
{
	size_t bad = 0;
	for (unsigned i = 0; i < 400; i++) {
		size_t size = sizes[i % SIZES];
		byte *p = malloc(size);
		memset(p, (int)i & 127, size);
		bad += wrong(p, size, (int)i & 127);
		free(p);
	}
	if (bad)
		say("bad", bad);
	return unused;
}

static void threads(void)
{
	pthread_t t[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, make_and_free, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(t[i], NULL);
	say("done", 1);
}

/* The program anew, under a limit on address space. */
static void overflow_in_little_space(void)
{
	struct rlimit limit = {seconds << 20, seconds << 20};
	setrlimit(RLIMIT_AS, &limit);
	execl("/proc/self/exe", "./pages", "overflow", NULL);
	_exit(98);
}

#define CASE(name) \
	{ \
#name, name \
	}
static const struct say_case cases[] = {
	CASE(overflow),       CASE(underflow),
	CASE(use_after_free), CASE(resize),
	CASE(damage_beside),  CASE(more_than_there_is_room_for),
	CASE(threads),        CASE(overflow_in_little_space),
};

int main(int argc, char **argv)
{
	return say_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
