/* SPDX-License-Identifier: MIT */
/* A program whose own handler of SIGSEGV ends it in order; then it uses a freed block. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

static char *volatile block;

static void give_up(int number)
{
	if (write(1, "own handler\n", 12) != 12)
		_exit(5);
	_exit(4);
}

int main(void)
{
	signal(SIGSEGV, give_up);
	block = malloc(10);
	free(block);
	block[0] = 1;
	if (write(1, "end\n", 4) != 4)
		return 5;
	return 0;
}
