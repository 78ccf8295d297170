/* SPDX-License-Identifier: MIT */
/* A daemon's start: every descriptor from 3 on is closed, the directory changes. */
#include <sys/syscall.h>

#include "program.h"

int main(void)
{
	mark(1777);
	for (int fd = 3; fd < 1024; fd++)
		close(fd);
	syscall(SYS_close_range, 3, ~0u, 0);
	if (chdir("/"))
		fail("chdir");
	int fd = dup(1);
	say("first free descriptor %d\n", fd);
	for (int i = 0; i < 50000; i++)
		KEEP(malloc((size_t)i % 100));
	for (int i = 0; i < 100; i++)
		mark(2777);
	say("process 1777x1 2777x100\n");
	return 0;
}
