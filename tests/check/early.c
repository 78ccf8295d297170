/* SPDX-License-Identifier: MIT */
/* A library that the program depends on: it handles a signal before the tracker does, and frees in
 * its destructor what its constructor got. */
#include "say.h"

#include <signal.h>

static void *block;
static int signal_number;

static void on_signal(int number, siginfo_t *info, void *context)
{
	say("early", (unsigned long)(number + (info->si_pid == getpid() ? 0 : 1000)));
}

__attribute__((constructor)) static void begin(void)
{
	struct sigaction a = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO};
	const char *number = getenv("EARLY_SIGNAL");
	signal_number = number ? atoi(number) : 0;
	if (signal_number)
		sigaction(signal_number, &a, NULL);
	block = malloc(321);
}

__attribute__((destructor)) static void end(void)
{
	free(block);
}
