/* SPDX-License-Identifier: MIT */
/*
 * Few calls, always from the same places, with pauses before each. Prints the times
 * (CLOCK_MONOTONIC, ns) of the allocations of 2777, 4777 ... bytes, how long another block lived,
 * and the end.
 *
 *   quiet [PAIRS]     so many pairs of malloc and free before all that, without a pause
 */
#include <time.h>

#include "program.h"

enum { BLOCKS = 3 };

static long long now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ll + now.tv_nsec;
}

static void wait_ms(long ms)
{
	struct timespec pause = {ms / 1000, ms % 1000 * 1000000};
	nanosleep(&pause, NULL);
}

__attribute__((noinline)) static void drop(void *p)
{
	free(p);
}

/* All sizes, so that each place is the same throughout. */
__attribute__((noinline)) static void *allocate(int i)
{
	return mark(i > 0 ? (1000u << i) + 777 : 776);
}

int main(void)
{
	drop(allocate(0));
	void *passing = allocate(0);
	long long born = now_ns();
	for (int i = 1; i <= BLOCKS; i++) {
		wait_ms(i == 1 ? 2000 : 300);
		allocate(i);
		say("at %d %lld\n", (1000 << i) + 777, now_ns());
	}
	wait_ms(300);
	drop(passing);
	say("lived %lld\n", now_ns() - born);
	wait_ms(400);
	say("end %lld\n", now_ns());
	return 0;
}
