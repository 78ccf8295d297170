/* SPDX-License-Identifier: MIT */
/*
 * meter FILE COMMAND ARGUMENTS: runs a command and writes its wall time in microseconds, its peak
 * memory in KiB and its status (a signal's number is negative) into the file. A process of its own:
 * the kernel counts into a program's peak what its parent had in memory when it was started.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static long now_us(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * 1000000 + t.tv_nsec / 1000;
}

int main(int argc, char **argv)
{
	struct rusage used;
	char line[128];
	int status;
	if (argc < 3)
		return 2;
	/* what is meant for the command is not for us */
	if (getenv("METER_PRELOAD")) {
		setenv("LD_PRELOAD", getenv("METER_PRELOAD"), 1);
		unsetenv("METER_PRELOAD");
	}
	long start = now_us();
	pid_t child = vfork();
	if (!child) {
		execvp(argv[2], argv + 2);
		_exit(127);
	}
	if (child < 0 || wait4(child, &status, 0, &used) != child)
		return 3;
	long took = now_us() - start;
	int n = snprintf(line, sizeof(line), "%ld %ld %d\n", took, used.ru_maxrss,
			 WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status));
	int fd = open(argv[1], O_WRONLY | O_CREAT | O_TRUNC, 0600);
	return fd < 0 || write(fd, line, (size_t)n) != n;
}
