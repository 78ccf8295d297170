/* SPDX-License-Identifier: MIT */
/* A child reallocates and frees what it inherited. */
#include "program.h"

#include <sys/wait.h>

int main(void)
{
	int status = 0;
	char *p = malloc(100), *q = calloc(4, 1000);
	memset(p, 7, 100);
	if (!fork()) {
		p = realloc(p, 5000);
		q = realloc(q, 10);
		int whole = p && q && p[0] == 7 && p[99] == 7;
		free(q);
		free(realloc(NULL, 33));
		free(p);
		_exit(!whole);
	}
	wait(&status);
	say("status %x\n", (unsigned)status);
	return 0;
}
