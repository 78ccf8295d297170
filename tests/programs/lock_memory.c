/* SPDX-License-Identifier: MIT */
/* mlockall: a real-time program locks all that it has mapped. The tracker's sparse tables must not
 * fill. */
#include <sys/mman.h>

#include "program.h"

int main(void)
{
	mark(1777);
	say("locked %d\n", mlockall(MCL_CURRENT | MCL_FUTURE));
	for (int i = 0; i < 20000; i++)
		KEEP(malloc(20));
	mark(2777);
	say("process 1777x1 2777x1\n");
	return 0;
}
