/* SPDX-License-Identifier: MIT */
/*
 * What follows from the rules of check mode beyond the table of cases: as check_cases.c.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <stdint.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "say.h"

static void x_shrinking_by_less_than_the_expansion(void)
{
	byte *p = malloc(100);
	memset(p, 1, 100);
	p = realloc(p, 60);
	memset(p, 2, 60);
	p = realloc(p, 59);
	say("usable", malloc_usable_size(p));
	say("wrong", wrong(p, 59, 2));
	p = realloc(p, 90);
	say("wrong_grown", wrong(p, 59, 2));
	memset(p, 3, 90);
	free(p);
	say_pointer("p", realloc(malloc(100), 60));
}

static void x_realloc_checks_the_guards(void)
{
	byte *p = malloc(40);
	say_pointer("p", p);
	p[41] = 1;
	p = realloc(p, 5000);
	mark("moved");
	say_pointer("q", p);
	p[5000] = 2;
	say_pointer("last", realloc(p, 0));
}

/* Each block is damaged behind its end. */
static void x_damage_of_many_sizes(void)
{
	static const size_t size[] = {20, 100, 200, 5000};
	for (size_t i = 0; i < sizeof(size) / sizeof(size[0]); i++) {
		byte *p = malloc(size[i]);
		if (size[i] == 100)
			say_pointer("p", p);
		p[size[i]] = 1;
		free(p);
	}
}

static void x_damage_behind_a_copied_string(void)
{
	byte *p = (byte *)strdup("letters");
	say_pointer("p", p);
	p[8] = 1;
	free(p);
}

static void x_fill_behind_a_grown_block(void)
{
	byte *p = malloc(100);
	memset(p, 1, 100);
	p = realloc(p, 1000);
	say("old", wrong(p, 100, 1));
	say("fresh", wrong(p + 100, 900, 0xeb));
	free(p);
}

static void x_nothing_for_null(void)
{
	errno = 77;
	free(NULL);
	say("usable", malloc_usable_size(NULL));
	say("errno", errno);
}

static void x_free_keeps_errno(void)
{
	byte *p = malloc(10);
	say_pointer("p", p);
	p[10] = 0;
	errno = 77;
	free(p);
	say("errno", errno);
}

static void x_buffers_of_standard_streams(void)
{
	printf("buffered 1\n");
	fflush(stdout);
	say_pointer("p", malloc(64));
}

static void *kept;

static void give_back(void)
{
	free(kept);
}

static void *kept_longer;

__attribute__((destructor)) static void last_destructor(void)
{
	free(kept_longer);
}

static void x_blocks_freed_while_exiting(void)
{
	kept_longer = malloc(200);
	kept = malloc(100);
	atexit(give_back);
}

static void x_every_function_has_its_alignment(void)
{
	static const size_t sizes[] = {0, 1, 7, 16, 100, 4095, 4096, 70000};
	size_t bad = 0;
	for (int i = 0; i < 8; i++) {
		size_t n = sizes[i], page = (size_t)sysconf(_SC_PAGESIZE);
		void *p[7] = {malloc(n),
			      calloc(1, n),
			      realloc(NULL, n + 1),
			      NULL,
			      memalign(512, n),
			      aligned_alloc(64, (n + 63) / 64 * 64),
			      memalign(page, n)};
		static const size_t align[] = {16, 16, 16, 256, 512, 64, 4096};
		bad += posix_memalign(&p[3], 256, n) != 0;
		for (int k = 0; k < 7; k++) {
			bad += p[k] == NULL || (uintptr_t)p[k] % align[k] != 0;
			if (p[k])
				memset(p[k], k, n);
		}
		for (int k = 0; k < 7; k++) {
			bad += wrong(p[k], n, k);
			free(p[k]);
		}
	}
	say("bad", bad);
}

static void x_blocks_of_a_parent(void)
{
	int status = 0;
	byte *p = malloc(100), *q = malloc(50);
	memset(p, 1, 100);
	pid_t child = fork();
	if (!child) {
		p[100] = 0;
		free(p);
		_exit(wrong(q - 32, 32, 0xaa) ? 1 : 7);
	}
	waitpid(child, &status, 0);
	say_pointer("p", p);
	say("status", WIFEXITED(status) ? WEXITSTATUS(status) : 255);
	mark("parent");
	free(p);
	free(q);
}

enum { RACES = 200 };
static void *volatile raced[RACES];
static volatile int turn;

static void *free_in_turn(void *unused)
{
	for (int i = 0; i < RACES; i++) {
		__atomic_fetch_add(&turn, 1, __ATOMIC_SEQ_CST);
		while (turn < 2 * (i + 1))
			;
		free(raced[i]);
	}
	return unused;
}

static void x_two_threads_free_at_once(void)
{
	pthread_t t;
	for (int i = 0; i < RACES; i++)
		raced[i] = malloc(50);
	pthread_create(&t, NULL, free_in_turn, NULL);
	free_in_turn(NULL);
	pthread_join(t, NULL);
}

/* Address space for a few of the blocks, of which 50 are freed. */
static void x_memory_that_is_held_back(void)
{
	struct rlimit limit = {64 << 20, 64 << 20};
	unsigned long got = 0;
	setrlimit(RLIMIT_AS, &limit);
	for (int i = 0; i < 50; i++) {
		byte *p = malloc(10 << 20);
		got += p != NULL;
		free(p);
		if (i == 40 && p) {
			say_pointer("p", p);
			p[7] = 1;
		}
	}
	say("got", got);
	say("too_much", malloc(100 << 20) != NULL);
}

static void x_large_blocks(void)
{
	size_t size = 5 << 20;
	byte *p = malloc(size), *q = calloc(1, size);
	say_pointer("p", p);
	say_pointer("q", q);
	say("wrong", wrong(q, size, 0));
	memset(p, 1, size);
	p[-1] = 1;
	p[size + 2] = 2;
	free(p);
	p = realloc(q, 2 * size);
	say("wrong_grown", wrong(p, size, 0));
	q[size - 3] = 3;
	mark("written");
	free(p);
	for (int i = 0; i < 3; i++)
		free(malloc(10));
}

static void x_calls_keep_errno(void)
{
	size_t bad = 0;
	for (size_t size = 0; size < 3000000; size = size * 3 + 1) {
		errno = 5;
		void *p = malloc(size), *q = calloc(1, size);
		p = realloc(p, size * 2 + 1);
		bad += errno != 5 || malloc_usable_size(p) < size;
		free(p);
		free(q);
		free(memalign(64, size));
		bad += errno != 5;
	}
	say("bad", bad);
}

#define CASE(name) \
	{ \
#name, name \
	}
static const struct say_case cases[] = {
	CASE(x_shrinking_by_less_than_the_expansion),
	CASE(x_realloc_checks_the_guards),
	CASE(x_damage_of_many_sizes),
	CASE(x_damage_behind_a_copied_string),
	CASE(x_fill_behind_a_grown_block),
	CASE(x_nothing_for_null),
	CASE(x_free_keeps_errno),
	CASE(x_buffers_of_standard_streams),
	CASE(x_blocks_freed_while_exiting),
	CASE(x_every_function_has_its_alignment),
	CASE(x_blocks_of_a_parent),
	CASE(x_two_threads_free_at_once),
	CASE(x_memory_that_is_held_back),
	CASE(x_large_blocks),
	CASE(x_calls_keep_errno),
};

int main(int argc, char **argv)
{
	return say_main(argc, argv, cases, sizeof(cases) / sizeof(cases[0]));
}
