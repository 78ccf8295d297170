/* SPDX-License-Identifier: MIT */
/*
 * A program notices a second thread: it could not enter a user namespace, and signals for the
 * process might be delivered to it. It also counts its descriptors, children and signal handlers.
 */
#include <dirent.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>

#include "program.h"

static int count(const char *path)
{
	int n = 0;
	DIR *d = opendir(path);
	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

int main(void)
{
	sigset_t set;
	int got = 0, handled = 0;
	mark(1777);
	say("threads %d descriptors %d\n", count("/proc/self/task") - 2,
	    count("/proc/self/fd") - 3);
	for (int s = 1; s < NSIG; s++) {
		struct sigaction now;
		handled += !sigaction(s, NULL, &now) && now.sa_handler != SIG_DFL;
	}
	sigprocmask(SIG_BLOCK, NULL, &set);
	for (int s = 1; s < NSIG; s++)
		got += sigismember(&set, s) == 1;
	say("handlers %d blocked %d\n", handled, got);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	kill(getpid(), SIGTERM);
	for (int i = 0; i < 1000; i++)
		free(malloc(100));
	say("waited %d %d\n", sigwait(&set, &got), got);
	say("child %d %s\n", wait(NULL), strerror(errno));
	say("namespace %s\n", unshare(CLONE_NEWUSER) ? strerror(errno) : "entered");
	mark(2777);
	say("process 1777x1 2777x1\n");
	return 0;
}
