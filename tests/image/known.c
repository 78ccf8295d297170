/* SPDX-License-Identifier: MIT */
/*
 * A program whose memory and registers are known: a number that grows, words in registers of a
 * thread that waits, and threads of another number of its own. Says "ready ADDRESS-OF-THE-NUMBER
 * PTHREAD-SELF" and goes on for ever. An argument makes it a subreaper, or large.
 */

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { LARGE_BYTES = 16 << 20 };

volatile uint64_t known_number = 1;
char known_memory[LARGE_BYTES];
_Thread_local uint64_t known_in_thread = 7;

static void *wait_with_words(void *arg)
{
#if defined(__x86_64__)
	long r;

	known_in_thread++;
	for (;;)
		__asm__ volatile("movabs $0x5eed00000012, %%r12\n\t"
				 "movabs $0x5eed00000015, %%r15\n\t"
				 "movabs $0x5eed000000a9, %%rax\n\t"
				 "movq %%rax, %%xmm9\n\t"
				 "movl %1, %%eax\n\t"
				 "syscall"
				 : "=a"(r)
				 : "i"(SYS_pause)
				 : "rcx", "r11", "r12", "r15", "xmm9", "memory");
#else
	for (;;)
		pause();
#endif
	return arg;
}

int main(int argc, char **argv)
{
	struct timespec t = {.tv_nsec = 1000000};
	pthread_t thread;

	if (argc > 1 && !strcmp(argv[1], "subreaper"))
		prctl(PR_SET_CHILD_SUBREAPER, 1);
	if (argc > 1 && !strcmp(argv[1], "large"))
		memset(known_memory, 1, LARGE_BYTES);
	pthread_create(&thread, NULL, wait_with_words, NULL);
	printf("ready %lx %lx\n", (unsigned long)&known_number, (unsigned long)pthread_self());
	fflush(stdout);
	for (;;) {
		known_number++;
		nanosleep(&t, NULL);
	}
}
