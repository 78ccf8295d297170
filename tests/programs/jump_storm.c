/* SPDX-License-Identifier: MIT */
/*
 * A timer's handler leaves by siglongjmp while the program maps and unmaps: what it interrupted
 * inside the tracker never ends. The program must go on, and what is not recorded must be counted.
 */
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/time.h>

#include "program.h"

static sigjmp_buf back;

static void on_alarm(int number)
{
	siglongjmp(back, 1);
}

int main(void)
{
	struct sigaction action = {.sa_handler = on_alarm};
	struct itimerval every = {{0, 150}, {0, 150}}, never = {{0, 0}, {0, 0}};
	volatile int jumps = 0;
	sigaction(SIGALRM, &action, NULL);
	if (sigsetjmp(back, 1))
		jumps++;
	if (jumps < 500) {
		setitimer(ITIMER_REAL, &every, NULL);
		for (;;) {
			void *p = mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
			munmap(p, 4096);
		}
	}
	setitimer(ITIMER_REAL, &never, NULL);
	for (int i = 0; i < 100; i++)
		mark(1777);
	free(mark(2777));
	say("process 1777x100\n");
	return 0;
}
