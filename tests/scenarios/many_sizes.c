/* SPDX-License-Identifier: MIT */
/*
 * One site with every size from 0 to 4096; each third block is freed again.
 *
 * leak: sizes count=2731 bytes=5593771 frames=main sites=1
 * site: sizes allocs=4097 frees=1366 bytes=8390656
 * totals: allocs=4097 frees=1366 bytes=8390656
 */
#include <stdlib.h>

#include "scenario.h"

int main(void)
{
	for (size_t size = 0; size <= 4096; size++) {
		void *p = malloc(size); /* LEAK:sizes */
		KEEP(p);
		if (size % 3 == 0)
			free(p);
	}
	return 0;
}
