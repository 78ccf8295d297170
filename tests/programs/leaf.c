/* SPDX-License-Identifier: MIT */
/* What exec_of starts: leaks a mark and says hello. Built for every libc and word size. */
#include <stdlib.h>
#include <unistd.h>

static void *volatile kept;

int main(int argc, char **argv)
{
	kept = malloc(61777);
	if (write(1, "leaf\n", 5) != 5)
		return 1;
	return 11 + argc - 1;
}
