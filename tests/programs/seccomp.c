/* SPDX-License-Identifier: MIT */
/*
 * A sandbox: after start only the system calls that malloc itself needs are allowed, all others
 * kill. The tracker meets new stacks, grows its tables and must not make another call.
 */
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "program.h"

#define ALLOW(name) \
	BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_##name, 0, 1), \
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)

static __attribute__((noinline)) void deep(int depth)
{
	if (depth % 3 == 0)
		KEEP(malloc(40));
	else
		KEEP(calloc(1, 50));
	if (depth)
		deep(depth - 1);
	opaque_zero = 0;
}

int main(void)
{
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 0),
		ALLOW(read),
		ALLOW(write),
		ALLOW(brk),
		ALLOW(mmap),
		ALLOW(munmap),
		ALLOW(mremap),
		ALLOW(mprotect),
		ALLOW(madvise),
		ALLOW(futex),
		ALLOW(exit_group),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = {sizeof(code) / sizeof(code[0]), code};
	mark(1777);
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		fail("seccomp");
	for (int i = 0; i < 60; i++)
		deep(i);
	for (int i = 0; i < 50000; i++)
		KEEP(malloc(16));
	for (int i = 0; i < 10; i++)
		free(mark(2000777));
	mark(2777);
	say("process 1777x1 2777x1\n");
	_exit(0);
}
