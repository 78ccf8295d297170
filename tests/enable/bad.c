/* SPDX-License-Identifier: MIT */
/*
 * Libraries that no program should be made to load. BAD says how: PRINTS, DIES, CHANGES (the exit
 * status), LATE (prints only where no LD_PRELOAD is set, as with /etc/ld.so.preload).
 */
#include <stdlib.h>
#include <unistd.h>

#define PRINTS 1
#define DIES 2
#define CHANGES 3
#define LATE 4

static void print(void)
{
	(void)!write(2, "bad library\n", 12);
}

__attribute__((constructor)) static void begin(void)
{
	if (BAD == PRINTS || (BAD == LATE && !getenv("LD_PRELOAD")))
		print();
	if (BAD == DIES)
		abort();
}

__attribute__((destructor)) static void end(void)
{
	if (BAD == CHANGES)
		_exit(3);
}
