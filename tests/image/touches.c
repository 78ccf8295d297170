/* SPDX-License-Identifier: MIT */
/*
 * A program with 4000 pages, which writes to half of them at SIGUSR1 and says "wrote" then. With an
 * argument it shares them with a child that only waits. Says "ready CHILD".
 */

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { PAGES = 4000, PAGE_BYTES = 4096 };

int main(int argc, char **argv)
{
	char *pages = mmap(NULL, PAGES * PAGE_BYTES, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	pid_t child = 0, parent = getpid();
	sigset_t set;
	int number;

	madvise(pages, PAGES * PAGE_BYTES, MADV_NOHUGEPAGE);
	memset(pages, 1, PAGES * PAGE_BYTES);
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	child = argc > 1 ? fork() : 0;
	if (getpid() != parent) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	printf("ready %d\n", child);
	fflush(stdout);
	for (;;) {
		sigwait(&set, &number);
		for (int i = 0; i < PAGES / 2; i++)
			pages[i * PAGE_BYTES] = 2;
		puts("wrote");
		fflush(stdout);
	}
}
