/* SPDX-License-Identifier: MIT */
/*
 * Memory of every use. Says where it lies, "NAME ADDRESS" a line, then "ready"; each line that it
 * reads then makes it touch 4 MiB more; ends with its input, or by an alarm.
 */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { LARGE = 5 << 20, STEP = 4 << 20, PAGE = 4096, LIFE_S = 120 };

static char zeros[1 << 20]; /* bss */
static char data[8192] = "data";
static int pipe_in[2];

static void say(const char *name, const void *at)
{
	printf("%s 0x%lx\n", name, (unsigned long)(uintptr_t)at);
	fflush(stdout);
}

static void *wait_for_end(void *opaque)
{
	char local, byte;
	char *block = malloc(10000); /* in an arena of its own */

	memset(block, 1, 10000);
	say("arena", block);
	say("thread_stack", &local);
	say("ready", NULL);
	return (void *)(intptr_t)read(pipe_in[0], &byte, 1);
}

static void *map(int protection, int flags, int fd)
{
	char *p = mmap(NULL, 16 * PAGE, protection, flags, fd, 0);

	if (p == MAP_FAILED)
		exit(3);
	if (protection & PROT_WRITE)
		memset(p, 1, 16 * PAGE);
	return p;
}

int main(void)
{
	pthread_t thread;
	char local, line[16];
	char *large = malloc(LARGE), *more = malloc(LARGE), *small = malloc(100);
	int fd = memfd_create("shape", 0);

	alarm(LIFE_S);
	memset(large, 1, LARGE);
	memset(more, 1, LARGE);
	memset(zeros, 1, sizeof(zeros));
	data[0]++;
	if (pipe(pipe_in) || fd < 0 || ftruncate(fd, 16 * PAGE))
		return 3;
	say("large", large);
	say("more", more);
	say("small", small);
	say("bss", zeros + sizeof(zeros) / 2);
	say("data", data);
	say("code", (const void *)(uintptr_t)&main);
	say("libc", (const void *)(uintptr_t)&puts);
	say("main_stack", &local);
	say("memfd", map(PROT_READ | PROT_WRITE, MAP_SHARED, fd));
	say("shared", map(PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1));
	say("jit", map(PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1));
	if (pthread_create(&thread, NULL, wait_for_end, NULL))
		return 3;
	while (fgets(line, sizeof(line), stdin)) {
		char *p = malloc(STEP);

		memset(p, 1, STEP);
		say("grown", p);
	}
	return 0;
}
