/* SPDX-License-Identifier: MIT */
/* Takes memory until the kernel kills it. */
#include "program.h"

int main(void)
{
	say("hungry\n");
	for (int i = 0; i < 100000; i++) {
		char *p = malloc(100777);
		if (!p)
			return 1;
		memset(p, 1, 100777);
		KEEP(p);
	}
	return 2;
}
