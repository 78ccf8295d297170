/* SPDX-License-Identifier: MIT */
/*
 * Blocks of 1 GiB and beyond 4 GiB keep their exact sizes.
 *
 * leak: gib count=1 bytes=1073741824 frames=main sites=1
 * leak: beyond count=1 bytes=4294967301 frames=main sites=1
 * totals: allocs=3 frees=1 bytes=6442450949
 */
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	char *p = malloc((size_t)1 << 30);       /* LEAK:gib */
	char *q = malloc(((size_t)1 << 32) + 5); /* LEAK:beyond */
	char *r = malloc((size_t)1 << 30);
	if (!p || !q || !r)
		return 1;
	p[0] = q[0] = r[0] = 1;
	KEEP(p), KEEP(q), KEEP(r);
	free(r);
	return 0;
}
