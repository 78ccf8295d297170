/* SPDX-License-Identifier: MIT */
/* Run with the wrapper library preloaded before or after memtrack: both see every call once. */
#include "program.h"

int main(void)
{
	for (int i = 0; i < 20; i++) {
		mark(1777);
		free(mark(2777));
	}
	say("process 1777x20\n");
	return 0;
}
