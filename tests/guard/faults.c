/* SPDX-License-Identifier: MIT */
/*
 * One wrong use of a heap block, named by the argument; prints "end" when it was let through. The
 * driver finds the lines by their marks: CASE ROLE, with the roles use, alloc and free.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define APART __attribute__((noinline, noclone))

static volatile char sink;
static char *volatile block; /* keeps the compiler from seeing what is done */

APART static void overflow_by_one(void)
{
	block = malloc(32); /* MARK overflow_by_one alloc */
	block[32] = 1;      /* MARK overflow_by_one use */
	free(block);
}

APART static void overflow_read_by_100(void)
{
	block = malloc(64); /* MARK overflow_read_by_100 alloc */
	sink = block[164];  /* MARK overflow_read_by_100 use */
	free(block);
}

APART static void overflow_of_odd_size(void)
{
	block = malloc(20); /* MARK overflow_of_odd_size alloc */
	block[20] = 1;
	free(block); /* MARK overflow_of_odd_size use */
}

APART static void overflow_in_memset(void)
{
	block = calloc(3, 16);    /* MARK overflow_in_memset alloc */
	memset(block, 1, 48 + 8); /* MARK overflow_in_memset caller */
	free(block);
}

APART static void underflow_read(void)
{
	block = malloc(100); /* MARK underflow_read alloc */
	sink = block[-1];    /* MARK underflow_read use */
	free(block);
}

APART static void underflow_late(void)
{
	block = malloc(100); /* MARK underflow_late alloc */
	block[-3] = 1;
	free(block); /* MARK underflow_late use */
}

APART static void use_after_free_read(void)
{
	block = malloc(50); /* MARK use_after_free_read alloc */
	memcpy(block, "still here", 11);
	free(block);      /* MARK use_after_free_read free */
	sink = block[10]; /* MARK use_after_free_read use */
	if (strcmp(block, "still here") != 0)
		puts("contents are lost");
}

APART static void use_after_free_write(void)
{
	block = realloc(NULL, 4000); /* MARK use_after_free_write alloc */
	free(block);                 /* MARK use_after_free_write free */
	block[3999] = 1;             /* MARK use_after_free_write use */
}

APART static void double_free(void)
{
	block = malloc(24); /* MARK double_free alloc */
	free(block);        /* MARK double_free free */
	free(block);        /* MARK double_free use */
}

APART static void interior_free(void)
{
	block = malloc(80); /* MARK interior_free alloc */
	free(block + 16);   /* MARK interior_free use */
	free(block);
}

APART static void realloc_of_freed(void)
{
	block = malloc(24);               /* MARK realloc_of_freed alloc */
	free(block);                      /* MARK realloc_of_freed free */
	char *other = realloc(block, 30); /* MARK realloc_of_freed use */
	memset(other, 1, 30);
	free(other);
}

static void *make_it(void *unused)
{
	block = malloc(40); /* MARK three_threads alloc */
	return unused;
}

static void *drop_it(void *unused)
{
	free(block); /* MARK three_threads free */
	return unused;
}

APART static void three_threads(void)
{
	pthread_t t;
	pthread_create(&t, NULL, make_it, NULL);
	pthread_join(t, NULL);
	pthread_create(&t, NULL, drop_it, NULL);
	pthread_join(t, NULL);
	block[0] = 1; /* MARK three_threads use */
}

/* The child frees a block of its parent, and uses it; the parent's is whole. */
APART static void in_child(void)
{
	int status;
	block = malloc(33);
	memcpy(block, "inherited", 10);
	pid_t child = fork();
	if (!child) {
		if (strcmp(block, "inherited") != 0)
			_exit(1);
		free(block);      /* MARK in_child free */
		sink = block[32]; /* MARK in_child use */
		_exit(7);
	}
	if (waitpid(child, &status, 0) != child || !WIFEXITED(status) || WEXITSTATUS(status) != 7)
		printf("status of the child: %x\n", status);
	if (strcmp(block, "inherited") != 0)
		puts("the parent's block has changed");
	free(block);
}

/* Nothing is wrong: contents, sizes and alignments are those that were asked for. */
APART static void no_error(void)
{
	for (size_t size = 0; size < 4200; size += 97) {
		void *aligned;
		unsigned char *p = calloc(1, size);
		for (size_t i = 0; i < size; i++)
			if (p[i])
				puts("calloc: not zero");
		memset(p, (int)size, size);
		p = realloc(p, size + 50);
		for (size_t i = 0; i < size; i++)
			if (p[i] != (unsigned char)size)
				puts("realloc: contents are lost");
		p = realloc(p, size / 2 + 1);
		if ((size_t)p % 16)
			puts("not aligned");
		free(p);
		if (posix_memalign(&aligned, 256, size) || (size_t)aligned % 256)
			puts("posix_memalign: not aligned");
		memset(aligned, 1, size);
		free(aligned);
		free(aligned_alloc(16, 64));
		p = reallocarray(NULL, 3, size + 1);
		memset(p, 2, 3 * (size + 1));
		if (realloc(p, 0) != NULL)
			puts("realloc to 0 gave a block");
		free(strdup("a string"));
	}
	free(NULL);
}

static const struct {
	const char *name;
	void (*run)(void);
} cases[] = {
#define CASE(name) \
	{ \
#name, name \
	}
	CASE(overflow_by_one),
	CASE(overflow_read_by_100),
	CASE(overflow_of_odd_size),
	CASE(overflow_in_memset),
	CASE(underflow_read),
	CASE(underflow_late),
	CASE(use_after_free_read),
	CASE(use_after_free_write),
	CASE(double_free),
	CASE(interior_free),
	CASE(realloc_of_freed),
	CASE(three_threads),
	CASE(in_child),
	CASE(no_error),
};

int main(int argc, char **argv)
{
	setvbuf(stdout, NULL, _IONBF, 0);
	for (size_t i = 0; argc > 1 && i < sizeof(cases) / sizeof(cases[0]); i++)
		if (!strcmp(argv[1], cases[i].name)) {
			cases[i].run();
			puts("end");
			return 0;
		}
	return 2;
}
