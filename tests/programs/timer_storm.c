/* SPDX-License-Identifier: MIT */
/*
 * A timer interrupts the program everywhere, also inside the tracker. The handler maps and unmaps
 * (always allowed) and allocates when it did not interrupt malloc (bare libc would deadlock).
 */
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "program.h"

enum { SIGNALS = 3000 };
static volatile sig_atomic_t inside, count, allocations;
static void *volatile from_handler[SIGNALS];

static void on_alarm(int number)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(p, 4096);
	if (!inside && allocations < 500)
		from_handler[allocations++] = malloc(1777);
	count++;
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
	struct itimerval every = {{0, 100}, {0, 100}}, never = {{0, 0}, {0, 0}};
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	while (count < SIGNALS || allocations < 500) {
		inside = 1;
		for (int i = 0; i < 20; i++) {
			void *p = malloc((size_t)i * 10);
			KEEP(p);
			free(p);
		}
		inside = 0;
		for (int i = 0; i < 5; i++) {
			void *p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			munmap(p, 8192);
		}
	}
	setitimer(ITIMER_REAL, &never, NULL);
	say("process 1777x500\n");
	return 0;
}
