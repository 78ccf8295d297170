/* SPDX-License-Identifier: MIT */
/* Takes memory until the kernel kills it; first joins a group: hungry [GROUP/cgroup.procs] */
#include <fcntl.h>

#include "program.h"

int main(int argc, char **argv)
{
	if (argc > 1) {
		int fd = open(argv[1], O_WRONLY);
		if (fd < 0 || write(fd, "0", 1) != 1)
			fail("group");
		close(fd);
	}
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
