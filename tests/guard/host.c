/* SPDX-License-Identifier: MIT */
/*
 * A program that lives with SIGSEGV of its own: sets handlers in every way, reads them back, jumps
 * out of them, repairs pages in them, and dies as the argument says. All that it sees is printed.
 */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static sigjmp_buf back;
static volatile int count;
static char *page;
static char *volatile null_page = (char *)8;
static char altstack[65536];

static void say_mask(const char *what)
{
	sigset_t m;
	sigprocmask(SIG_BLOCK, NULL, &m);
	printf("%s: SIGUSR1 %d SIGSEGV %d\n", what, sigismember(&m, SIGUSR1),
	       sigismember(&m, SIGSEGV));
}

static int on_altstack(void)
{
	char here;
	return &here >= altstack && &here < altstack + sizeof(altstack);
}

static void jump(int number, siginfo_t *info, void *context)
{
	printf("jump: signal %d code %d address %p altstack %d\n", number, info->si_code,
	       info->si_addr == page ? (void *)1 : info->si_addr, on_altstack());
	say_mask("in jump");
	siglongjmp(back, 1);
}

static void repair(int number, siginfo_t *info, void *context)
{
	count++;
	mprotect(page, 4096, PROT_READ | PROT_WRITE);
}

static void plain(int number)
{
	printf("plain: signal %d\n", number);
}

static void exit_3(int number)
{
	_exit(3);
}

static void tell_action(void)
{
	struct sigaction a;
	sigaction(SIGSEGV, NULL, &a);
	const char *name = a.sa_handler == SIG_DFL                           ? "default"
			   : a.sa_handler == SIG_IGN                         ? "ignored"
			   : a.sa_sigaction == jump                          ? "jump"
			   : a.sa_sigaction == repair                        ? "repair"
			   : a.sa_handler == plain || a.sa_handler == exit_3 ? "plain"
									     : "foreign";
	printf("action: %s flags %x SIGUSR1 %d SIGSEGV %d\n", name, (unsigned)a.sa_flags,
	       sigismember(&a.sa_mask, SIGUSR1), sigismember(&a.sa_mask, SIGSEGV));
}

static void set(void (*handler)(int, siginfo_t *, void *), int flags)
{
	struct sigaction a = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | flags};
	sigemptyset(&a.sa_mask);
	sigaddset(&a.sa_mask, SIGUSR1);
	printf("set: %d\n", sigaction(SIGSEGV, &a, NULL));
}

static void faults(int flags)
{
	set(jump, flags);
	tell_action();
	mprotect(page, 4096, PROT_NONE);
	if (!sigsetjmp(back, 1))
		*page = 1;
	say_mask("after a jump");
	if (!sigsetjmp(back, 1))
		*null_page = 1;
	tell_action(); /* default after SA_RESETHAND, which two faults would not survive */
}

static void *in_thread(void *unused)
{
	mprotect(page, 4096, PROT_NONE);
	page[5] = 5;
	return unused;
}

static void children(void)
{
	int status;
	fflush(stdout);
	pid_t child = vfork(); /* shares our memory, not our actions */
	if (!child) {
		signal(SIGSEGV, SIG_DFL);
		_exit(0);
	}
	waitpid(child, &status, 0);
	tell_action();
	child = fork();
	if (!child) {
		signal(SIGSEGV, exit_3);
		*null_page = 1;
		_exit(0);
	}
	waitpid(child, &status, 0);
	printf("child: %x\n", status);
	tell_action();
}

int main(int argc, char **argv)
{
	stack_t stack = {.ss_sp = altstack, .ss_size = sizeof(altstack)};
	const char *how = argc > 1 ? argv[1] : "";
	pthread_t t;
	page = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	tell_action();
	faults(0);
	faults(SA_NODEFER);
	sigaltstack(&stack, NULL);
	faults(SA_ONSTACK);
	set(repair, SA_ONSTACK | SA_RESTART);
	tell_action();
	mprotect(page, 4096, PROT_NONE);
	*page = 3;
	pthread_create(&t, NULL, in_thread, NULL);
	pthread_join(t, NULL);
	printf("repaired: %d\n", count);
	children();
	printf("before: %d\n", signal(SIGSEGV, plain) == (sighandler_t)repair);
	raise(SIGSEGV);
	tell_action();
	printf("bad: %d\n", signal(SIGSEGV, SIG_ERR) == SIG_ERR);
	signal(SIGSEGV, SIG_IGN);
	tell_action();
	raise(SIGSEGV);
	if (!strcmp(how, "once")) {
		set(repair, SA_RESETHAND);
		mprotect(page, 4096, PROT_NONE);
		*page = 1;
		tell_action();
	}
	fflush(stdout);
	if (!strcmp(how, "ignored"))
		*null_page = 1;
	signal(SIGSEGV, SIG_DFL);
	if (!strcmp(how, "raise"))
		raise(SIGSEGV);
	if (!strcmp(how, "handler")) {
		signal(SIGSEGV, exit_3);
		*null_page = 1;
	}
	*null_page = 1;
	puts("not reached");
	return 0;
}
