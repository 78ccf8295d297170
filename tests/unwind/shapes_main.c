/* SPDX-License-Identifier: MIT */
/* Runs a generated program (gen_shapes.py) with every capture checked. usage: PROGRAM SEED ROUNDS
 */

#include <signal.h>

#include "check.h"

enum { CAPTURES_WANTED = 4000 };

int shapes_main(unsigned long seed, int rounds);

static void on_signal(int sig)
{
	fixture_hook();
}

int main(int argc, char **argv)
{
	if (argc != 3)
		return 2;
	signal(SIGUSR1, on_signal);
	fixture_start();
	check_oracle = CHECK_SAME;
	for (unsigned long i = 0; i < 20 && check_result.captures < CAPTURES_WANTED; i++)
		shapes_main(strtoul(argv[1], NULL, 10) + 100 * i, atoi(argv[2]));
	printf("%lu captures, %lu wrong, %lu not as the other unwinder; "
	       "%lu memo hits, %lu joined\n",
	       (long)check_result.captures, (long)check_result.wrong,
	       (long)check_result.oracle_wrong, (long)check_result.memo_hits,
	       (long)check_result.joined);
	return check_result.wrong || check_result.oracle_wrong ||
	       check_result.captures < CAPTURES_WANTED / 2;
}
