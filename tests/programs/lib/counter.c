/* SPDX-License-Identifier: MIT */
/*
 * Counts what a program with one thread does with the C library's malloc, without memtrack: at exit
 * `ALLOCS FREES BYTES` go to the file $COUNTER_FILE.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

void *__libc_malloc(size_t);
void *__libc_calloc(size_t, size_t);
void *__libc_realloc(void *, size_t);
void *__libc_memalign(size_t, size_t);
void __libc_free(void *);

static unsigned long long allocs, frees, bytes;

void *malloc(size_t size)
{
	allocs++;
	bytes += size;
	return __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
	allocs++;
	bytes += n * size;
	return __libc_calloc(n, size);
}

void *realloc(void *p, size_t size)
{
	allocs++;
	frees += p != NULL;
	bytes += size;
	return __libc_realloc(p, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
	allocs++;
	bytes += size;
	return __libc_memalign(alignment, size);
}

void free(void *p)
{
	frees += p != NULL;
	__libc_free(p);
}

__attribute__((destructor)) static void write_counts(void)
{
	char text[100];
	int length = snprintf(text, sizeof(text), "%llu %llu %llu\n", allocs, frees, bytes);
	int fd = open(getenv("COUNTER_FILE"), O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (write(fd, text, (size_t)length) != length)
		_exit(99);
	close(fd);
}
