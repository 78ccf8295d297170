/* SPDX-License-Identifier: MIT */
/* One process becomes four programs in turn, by four members of the exec family. */
#include <errno.h>

#include "program.h"

extern char **environ;

int main(int argc, char **argv)
{
	int step = argc > 1 ? atoi(argv[1]) : 0;
	char next[2] = {(char)('1' + step), 0};
	char *words[] = {argv[0], next, NULL};
	mark((size_t)step * 1000 + 1777);
	say("step %d\n", step);
	execl("/nonexistent", "nonexistent", NULL);
	if (errno != ENOENT)
		fail("errno of a failed exec");
	mark(20777);
	if (step == 0)
		execv(argv[0], words);
	if (step == 1)
		execl(argv[0], argv[0], next, NULL);
	if (step == 2)
		execle(argv[0], argv[0], next, NULL, environ);
	say("process 1777x1 20777x1\nprocess 2777x1 20777x1\nprocess 3777x1 20777x1\n");
	say("process 4777x1 20777x1\n");
	return 0;
}
