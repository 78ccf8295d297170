/* SPDX-License-Identifier: MIT */
/*
 * A heap that is damaged at the first look and whole afterwards, as it is when a thread is caught
 * in the middle of a change: a size word of glibc's is wrong until a page that is written to all
 * the time is copied, which a look brings about.
 */

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BLOCKS = 100, SETTLED = 50, PAGE = 4096 };

static char *volatile block[BLOCKS];
static volatile char probe[3 * PAGE];

/* Minor faults so far, after a write to the page. */
static long faults(void)
{
	struct rusage usage;

	probe[PAGE]++;
	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_minflt;
}

static void wait_for_fault(void)
{
	long before = faults();

	while (faults() == before)
		usleep(100);
}

static void settle(void)
{
	long before = faults();

	for (int same = 0; same < SETTLED; same++)
		if (faults() != before) {
			before = faults();
			same = 0;
		}
}

int main(int argc, char **argv)
{
	size_t *word, right;

	for (int i = 0; i < BLOCKS; i++)
		block[i] = malloc(100);
	word = (size_t *)(void *)block[BLOCKS / 2] - 1;
	right = *word;
	*word = 0x414141;
	puts("ready 0 0");
	fflush(stdout);
	settle();
	wait_for_fault();
	if (argc > 1 && !strcmp(argv[1], "heals"))
		*word = right; /* else it stays as it is */
	for (;;)
		pause();
}
