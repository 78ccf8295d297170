/* SPDX-License-Identifier: MIT */
/* A program with an allocator of its own, which its calls reach: the tracker can only stay out of
 * the way. */
#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "program.h"

static char room[1 << 20];
static size_t used, frees;

void *malloc(size_t size)
{
	size_t need = (size + 31) & ~(size_t)15;
	if (need < size || used + need > sizeof(room)) {
		errno = ENOMEM;
		return NULL;
	}
	char *p = room + used;
	used += need;
	*(size_t *)p = size;
	return p + 16;
}

void free(void *p)
{
	frees += p != NULL;
}

void *calloc(size_t n, size_t size)
{
	void *p = malloc(n * size);
	return p ? memset(p, 0, n * size) : p;
}

void *realloc(void *p, size_t size)
{
	void *q = malloc(size);
	if (q && p)
		memcpy(q, p,
		       *(size_t *)((char *)p - 16) < size ? *(size_t *)((char *)p - 16) : size);
	return q;
}

int main(void)
{
	free(mark(1777));
	char *copy = strdup("text");
	int own = copy >= room && copy < room + sizeof(room);
	free(copy);
	say("own allocator %s, frees %zu\n", own ? "yes" : "no", frees);
	pid_t pid = fork(); /* libc allocates and frees around it */
	if (!pid) {
		free(mark(2777));
		_exit(3);
	}
	int status = 0;
	waitpid(pid, &status, 0);
	say("child %d\n", WEXITSTATUS(status));
	return 0;
}
