/* SPDX-License-Identifier: MIT */
/*
 * What every libc must see counted alike: each allocating function, threads, a forked child, a
 * library, exec. Sizes are chosen so that the driver finds each kind in the state file.
 *
 *   families [LIBRARY]          everything once
 *   families exec PROGRAM...    leaks one block, then becomes PROGRAM
 */
#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *volatile sink;
#define NOINLINE __attribute__((noinline))

static NOINLINE void plain(void)
{
	for (int i = 0; i < 7; i++)
		sink = malloc(1001);
	for (int i = 0; i < 100; i++) {
		void *p = malloc(1002);
		sink = p;
		free(p);
	}
}

static NOINLINE void cleared(void)
{
	for (int i = 0; i < 3; i++)
		sink = calloc(7, 143);
	sink = calloc(1, 40001);
}

static NOINLINE void resized(void)
{
	void *p = realloc(NULL, 1003);
	for (size_t size = 2000; size <= 60000; size += 2000) {
		p = realloc(p, size);
		sink = p;
	}
	sink = realloc(p, 1004);
	p = malloc(1005);
	sink = p;
	sink = realloc(p, (size_t)1 << 60); /* refused: the block stays */
}

static NOINLINE void aligned(void)
{
	void *p;
	if (posix_memalign(&p, 64, 1006) == 0)
		sink = p;
	sink = aligned_alloc(64, 1024 + 64);
	sink = memalign(128, 1007);
}

static void *in_thread(void *unused)
{
	for (int i = 0; i < 100; i++) {
		void *p = malloc(1008);
		sink = p;
		free(p);
	}
	sink = malloc(1009);
	return NULL;
}

static NOINLINE void threads(void)
{
	pthread_t thread[4];
	for (int i = 0; i < 4; i++)
		pthread_create(&thread[i], NULL, in_thread, NULL);
	for (int i = 0; i < 4; i++)
		pthread_join(thread[i], NULL);
}

static NOINLINE void mapped(void)
{
	char *p = mmap(NULL, 5 * 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(p + 65536, 65536);
}

static NOINLINE int forked(void)
{
	int status = -1;
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 5; i++)
			sink = malloc(1010);
		exit(0);
	}
	waitpid(child, &status, 0);
	return status;
}

static NOINLINE int library(const char *path)
{
	for (int i = 0; i < 3; i++) {
		void *handle = dlopen(path, RTLD_NOW);
		if (!handle)
			return 1;
		void *(*make)(size_t) = (void *(*)(size_t))dlsym(handle, "soak_make");
		sink = make(1011);
		dlclose(handle);
	}
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 2 && !strcmp(argv[1], "exec")) {
		sink = malloc(1012);
		execvp(argv[2], argv + 2);
		return 1;
	}
	plain();
	cleared();
	resized();
	aligned();
	threads();
	mapped();
	int bad = forked();
	if (argc > 1)
		bad |= library(argv[1]);
	return bad != 0;
}
