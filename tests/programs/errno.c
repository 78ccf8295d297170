/* SPDX-License-Identifier: MIT */
/* errno is what a bare run leaves, whatever the tracker did meanwhile. */
#include <errno.h>
#include <malloc.h>
#include <stdint.h>

#include "program.h"

#define CHECK(what, expected) say("%s: %s\n", what, errno == (expected) ? "right" : strerror(errno))

int main(void)
{
	void *p = malloc(100);
	errno = 77;
	free(p);
	CHECK("free", 77);
	errno = 78;
	KEEP(malloc(3000000));
	CHECK("malloc of a mapping", 78);
	errno = 0;
	say("%s, ", malloc(SIZE_MAX - opaque_zero) ? "block" : "null");
	CHECK("malloc too large", ENOMEM);
	errno = 0;
	say("%s, ", calloc(SIZE_MAX / 2 - opaque_zero, 4) ? "block" : "null");
	CHECK("calloc too large", ENOMEM);
	p = malloc(1777);
	errno = 0;
	say("%s, ", realloc(p, SIZE_MAX / 2 - opaque_zero) ? "block" : "null");
	CHECK("realloc too large", ENOMEM);
	errno = 79;
	say("posix_memalign %s, ", posix_memalign(&p, 3, 8) == EINVAL ? "EINVAL" : "?");
	CHECK("left alone", 79);
	errno = 80;
	free(NULL);
	CHECK("free of null", 80);
	errno = 0;
	say("%s, ", memalign(64, SIZE_MAX - 8 - opaque_zero) ? "block" : "null");
	CHECK("memalign too large", ENOMEM);
	for (int i = 0; i < 100000; i++) {
		errno = 81;
		KEEP(malloc(40));
		if (errno != 81)
			fail("errno in a loop that makes tables grow");
	}
	say("process 1777x1\n");
	return 0;
}
