/* SPDX-License-Identifier: MIT */
/* 60000 blocks, half of them freed: enough to need every table, under whatever limits the driver
 * sets. */
#include "program.h"

int main(int argc, char **argv)
{
	static void *block[60000];
	size_t sum = 0;
	for (int i = 0; i < 60000; i++) {
		block[i] = malloc((size_t)(i % 500));
		if (!block[i])
			fail("malloc");
		sum += (size_t)(i % 500);
	}
	for (int i = 0; i < 60000; i += 2)
		free(block[i]);
	mark(1777);
	say("bytes %zu descriptors %d\n", sum, dup(0) < 0 ? -1 : 0);
	say("process 1777x1\n");
	return 0;
}
