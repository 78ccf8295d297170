/* SPDX-License-Identifier: MIT */
/*
 * Fills the file system of the state files in the middle, goes on, frees it again, and goes on:
 *
 *   fill_shm DIRECTORY
 */
#include <fcntl.h>

#include "program.h"

static char page[65536];

static void churn(int blocks)
{
	for (int i = 0; i < blocks; i++)
		KEEP(malloc((size_t)(i % 300)));
}

int main(int argc, char **argv)
{
	char path[256];
	if (argc != 2)
		fail("arguments");
	snprintf(path, sizeof(path), "%s/filler", argv[1]);
	mark(1777);
	churn(2000);
	int fd = open(path, O_WRONLY | O_CREAT, 0600);
	if (fd < 0)
		fail("open");
	for (size_t size = sizeof(page); size; size /= 2)
		while (write(fd, page, size) > 0)
			;
	for (int i = 0; i < 60; i++)
		allocate_deep(i);
	churn(100000);
	for (int i = 0; i < 5; i++)
		free(mark(2000777));
	mark(2777);
	if (close(fd) || unlink(path))
		fail("unlink");
	churn(1000);
	mark(3777);
	say("process 1777x1 2777x1 3777x1\n");
	return 0;
}
