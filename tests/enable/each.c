/* SPDX-License-Identifier: MIT */
/*
 * Calls each function that the library defines, one after the other, and says what came of it: in a
 * process that is left alone each is found when it is called first.
 */
#include <dlfcn.h>
#include <link.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static void say(const char *what, int good)
{
	printf("%s %s\n", what, good ? "works" : "fails");
	fflush(stdout);
}

static int ended_well(pid_t pid)
{
	int status = -1;
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

/* From then on the kernel kills for every call but read, write and exit: nothing may be looked up.
 */
static void restricted(void)
{
	pid_t pid = fork();
	if (!pid) {
		char *volatile block = malloc(24);
		if (prctl(PR_SET_SECCOMP, 1, 0, 0, 0))
			_exit(0); /* no such kernel */
		free(block);
		syscall(SYS_exit, 0);
	}
	say("free under strict seccomp", ended_well(pid));
}

static void allocate(void)
{
	void *p = malloc(10);
	say("malloc", p != NULL);
	p = realloc(p, 5000);
	say("realloc", p != NULL);
	p = reallocarray(p, 100, 100);
	say("reallocarray", p != NULL);
	say("malloc_usable_size", malloc_usable_size(p) >= 10000);
	free(p);
	char *zeros = calloc(10, 10);
	say("calloc", zeros && !zeros[0] && !zeros[99]);
	free(zeros);
	say("posix_memalign", !posix_memalign(&p, 64, 100) && (size_t)p % 64 == 0);
	free(p);
	p = memalign(128, 100);
	say("memalign", p && (size_t)p % 128 == 0);
	free(p);
	p = aligned_alloc(256, 256);
	say("aligned_alloc", p && (size_t)p % 256 == 0);
	free(p);
	p = valloc(10);
	say("valloc", p && (size_t)p % 4096 == 0);
	free(p);
}

static void map(void)
{
	char *p = mmap(NULL, 65536, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	say("mmap", p != MAP_FAILED);
	p = mremap(p, 65536, 131072, MREMAP_MAYMOVE);
	say("mremap", p != MAP_FAILED);
	say("munmap", !munmap(p, 131072));
	say("sbrk", sbrk(0) != (void *)-1);
}

static int count_module(struct dl_phdr_info *info, size_t bytes, void *count)
{
	++*(int *)count;
	return 0;
}

static void look_around(void)
{
	int modules = 0;
	struct sigaction action;
	char name[17] = "";
	void *self = dlopen(NULL, RTLD_NOW);
	say("dlopen", self != NULL);
	say("dlclose", self && !dlclose(self));
	dl_iterate_phdr(count_module, &modules);
	say("dl_iterate_phdr", modules > 1);
	say("sigaction", !sigaction(SIGUSR1, NULL, &action) && action.sa_handler == SIG_DFL);
	say("prctl", !prctl(PR_SET_NAME, "renamed", 0, 0, 0));
	say("pthread_setname_np", !pthread_setname_np(pthread_self(), "again"));
	say("name", !prctl(PR_GET_NAME, name, 0, 0, 0) && !strcmp(name, "again"));
	say("syscall", syscall(SYS_getpid) == getpid());
	struct rlimit limit;
	say("setrlimit", !getrlimit(RLIMIT_CORE, &limit) && !setrlimit(RLIMIT_CORE, &limit));
}

static void start(void)
{
	static char *arguments[] = {"true", NULL};
	pid_t pid = -1;
	say("posix_spawn",
	    !posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) && ended_well(pid));
	say("posix_spawnp",
	    !posix_spawnp(&pid, "true", NULL, NULL, arguments, environ) && ended_well(pid));
	pid = fork();
	if (!pid) {
		execvp("true", arguments);
		_exit(1);
	}
	say("execvp", ended_well(pid));
}

int main(void)
{
	restricted();
	allocate();
	map();
	look_around();
	start();
	return 7;
}
