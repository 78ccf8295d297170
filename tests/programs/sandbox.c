/* SPDX-License-Identifier: MIT */
/*
 * A narrow sandbox: only write, brk, mprotect and exit are allowed, every other system call kills,
 * also mmap, madvise and futex. A program with one thread and small blocks lives in it.
 *
 *   sandbox prctl|syscall|libseccomp BLOCKS
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "program.h"

#define ALLOW(name) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static struct sock_filter code[] = {
	BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
	ALLOW(write),
	ALLOW(brk),
	ALLOW(mprotect),
	ALLOW(exit_group),
	BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
};
static struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};

static void by_calls(int with_syscall)
{
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
		fail("no new privileges");
	if (with_syscall ? syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program)
			 : prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		fail("seccomp");
}

static void by_libseccomp(void)
{
	static const int allowed[] = {SYS_write, SYS_brk, SYS_mprotect, SYS_exit_group};
	void *lib = dlopen("libseccomp.so.2", RTLD_NOW);
	if (!lib) {
		say("no libseccomp\n");
		_exit(77);
	}
	void *(*init)(uint32_t) = (void *(*)(uint32_t))dlsym(lib, "seccomp_init");
	int (*rule_add)(void *, uint32_t, int, unsigned, ...) =
		(int (*)(void *, uint32_t, int, unsigned, ...))dlsym(lib, "seccomp_rule_add");
	int (*load)(void *) = (int (*)(void *))dlsym(lib, "seccomp_load");
	void *context = init(SECCOMP_RET_KILL_PROCESS);
	for (size_t i = 0; i < sizeof(allowed) / sizeof(allowed[0]); i++)
		if (rule_add(context, SECCOMP_RET_ALLOW, allowed[i], 0))
			fail("seccomp_rule_add");
	if (load(context))
		fail("seccomp_load");
}

/* The sixth argument is the file's offset. */
static void six_arguments(void)
{
	char wanted[64] = {0};
	int fd = open("/proc/self/exe", O_RDONLY);
	char *p = (char *)syscall(SYS_mmap, NULL, 4096, PROT_READ, MAP_PRIVATE, fd, 4096);
	if (p == MAP_FAILED || pread(fd, wanted, sizeof(wanted), 4096) != (ssize_t)sizeof(wanted) ||
	    memcmp(p, wanted, sizeof(wanted)))
		fail("six arguments");
	munmap(p, 4096);
	close(fd);
}

int main(int argc, char **argv)
{
	if (argc != 3)
		fail("arguments");
	mark(1777);
	six_arguments();
	/* a question whether filters are there, not a filter */
	if (syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, NULL) != -1)
		fail("a filter of nothing");
	if (argv[1][0] == 'l')
		by_libseccomp();
	else
		by_calls(argv[1][0] == 's');
	for (int i = 0; i < 60; i++)
		allocate_deep(i);
	for (int i = atoi(argv[2]); i; i--)
		KEEP(malloc(16));
	mark(2777);
	say("process 1777x1 2777x1\n");
	_exit(0);
}
