/* SPDX-License-Identifier: MIT */
/* Handlers on a small alternate stack allocate, after a fault and after raise; one leaves by
 * siglongjmp. */
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>

#include "program.h"

static sigjmp_buf back;

static void on_fault(int number)
{
	mark(1777);
	siglongjmp(back, 1);
}

static void on_user(int number)
{
	mark(2777);
}

int main(void)
{
	static char room[16384];
	stack_t alternate = {.ss_sp = room, .ss_size = sizeof(room)};
	struct sigaction fault = {.sa_handler = on_fault, .sa_flags = SA_ONSTACK};
	struct sigaction user = {.sa_handler = on_user, .sa_flags = SA_ONSTACK};
	sigaltstack(&alternate, NULL);
	sigaction(SIGSEGV, &fault, NULL);
	sigaction(SIGUSR1, &user, NULL);
	volatile char *page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	for (volatile int i = 0; i < 10; i++) {
		if (!sigsetjmp(back, 1))
			page[0] = 1;
		mark(3777);
		raise(SIGUSR1);
	}
	say("process 1777x10 2777x10 3777x10\n");
	return 0;
}
