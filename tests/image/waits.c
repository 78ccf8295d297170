/* SPDX-License-Identifier: MIT */
/*
 * Threads that wait in system calls, each in another one, until they are told to end; they count
 * what a program can notice of being stopped: EINTR, a signal, time that is missing. Says
 * "NAME ROUNDS EINTRS WRONG-RESULTS" of each, then the numbers of signals and children that it saw,
 * of masks of signals that changed, and whether some memory is what it was.
 */

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { SHORT_MS = 7, FUTEX_WAIT_IN_PROCESS = 128 };

static volatile int is_over;
static int signals_seen, begun, masks_wrong;
static unsigned char canary[1 << 16];

struct waiter {
	const char *name;
	int (*wait)(void); /* as a system call */
	long rounds, eintrs, wrong;
	pthread_t thread;
};

static int empty_pipe[2], sockets[2], semaphore;

static int in_epoll_wait(void)
{
	struct epoll_event e;
	int fd = epoll_create1(EPOLL_CLOEXEC), r = epoll_wait(fd, &e, 1, SHORT_MS), saved = errno;

	close(fd);
	errno = saved;
	return r;
}

static int in_epoll_pwait(void)
{
	struct epoll_event e;
	sigset_t fewer;
	int fd = epoll_create1(EPOLL_CLOEXEC), r, saved;

	sigemptyset(&fewer);
	sigaddset(&fewer, SIGTERM);
	r = epoll_pwait(fd, &e, 1, SHORT_MS, &fewer);
	saved = errno;
	close(fd);
	errno = saved;
	return r;
}

static int in_poll(void)
{
	struct pollfd p = {.fd = empty_pipe[0], .events = POLLIN};

	return poll(&p, 1, SHORT_MS);
}

static int in_select(void)
{
	struct timeval t = {.tv_usec = SHORT_MS * 1000};

	return select(0, NULL, NULL, NULL, &t);
}

static int in_futex(void)
{
	static uint32_t word;
	struct timespec t = {.tv_nsec = SHORT_MS * 1000000};

	return (int)syscall(SYS_futex, &word, FUTEX_WAIT_IN_PROCESS, 0, &t, NULL, 0) < 0 &&
			       errno == ETIMEDOUT
		       ? 0
		       : -1;
}

static int in_nanosleep(void)
{
	struct timespec t = {.tv_nsec = SHORT_MS * 1000000};

	return nanosleep(&t, NULL);
}

static int in_recv(void)
{
	struct timeval t = {.tv_usec = SHORT_MS * 1000};
	char c;
	ssize_t n;

	setsockopt(sockets[0], SOL_SOCKET, SO_RCVTIMEO, &t, sizeof(t));
	n = recv(sockets[0], &c, 1, 0);
	return n < 0 && errno == EAGAIN ? 0 : -1;
}

static int in_semtimedop(void)
{
	struct timespec t = {.tv_nsec = SHORT_MS * 1000000};
	struct sembuf b = {.sem_op = -1};

	return semtimedop(semaphore, &b, 1, &t) && errno == EAGAIN ? 0 : -1;
}

static int in_sigtimedwait(void)
{
	struct timespec t = {.tv_nsec = SHORT_MS * 1000000};
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGRTMAX);
	return sigtimedwait(&set, NULL, &t) < 0 && errno == EAGAIN ? 0 : -1;
}

/* No call at all: registers and the red zone hold what they should. */
static int in_computation(void)
{
	volatile double x = 1;
	double a = 1.5, b = 2.5, c = 3.5, d = 4.5;

	for (int i = 0; i < 200000; i++) {
		a += 0.5;
		b += 0.25;
		c += 0.125;
		d += 0.0625;
		x = a;
	}
	(void)x;
	return a == 100001.5 && b == 50002.5 && c == 25003.5 && d == 12504.5 ? 0 : -1;
}

static struct waiter waiters[] = {
	{"epoll_wait", in_epoll_wait},
	{"epoll_pwait", in_epoll_pwait},
	{"poll", in_poll},
	{"select", in_select},
	{"futex", in_futex},
	{"nanosleep", in_nanosleep},
	{"recv", in_recv},
	{"semtimedop", in_semtimedop},
	{"sigtimedwait", in_sigtimedwait},
	{"computation", in_computation},
};

static void *run(void *arg)
{
	struct waiter *w = arg;
	sigset_t before, after;

	pthread_sigmask(SIG_SETMASK, NULL, &before);
	__atomic_fetch_add(&begun, 1, __ATOMIC_RELEASE);
	while (!is_over) {
		int r;

		errno = 0;
		r = w->wait();
		w->eintrs += r < 0 && errno == EINTR;
		w->wrong += r != 0 && errno != EINTR;
		w->rounds++;
	}
	pthread_sigmask(SIG_SETMASK, NULL, &after);
	for (int s = 1; s < 64; s++)
		if (sigismember(&before, s) != sigismember(&after, s))
			__atomic_fetch_add(&masks_wrong, 1, __ATOMIC_RELAXED);
	return NULL;
}

static void note_signal(int number)
{
	__atomic_fetch_add(&signals_seen, 1, __ATOMIC_RELAXED);
}

static int is_canary_alive(void)
{
	for (size_t i = 0; i < sizeof(canary); i++)
		if (canary[i] != (unsigned char)(i * 13))
			return 0;
	return 1;
}

int main(void)
{
	struct sigaction sa = {.sa_handler = note_signal};
	sigset_t set;
	int children = 0, number;

	for (size_t i = 0; i < sizeof(canary); i++)
		canary[i] = (unsigned char)(i * 13);
	for (int s = 1; s < 32; s++)
		if (s != SIGTERM && s != SIGKILL && s != SIGSTOP && s != SIGSEGV && s != SIGBUS)
			sigaction(s, &sa, NULL);
	sigaction(SIGRTMIN, &sa, NULL);
	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGRTMAX);
	sigprocmask(SIG_BLOCK, &set, NULL);
	semaphore = semget(IPC_PRIVATE, 1, 0600);
	if (pipe(empty_pipe) || socketpair(AF_UNIX, SOCK_STREAM, 0, sockets) || semaphore < 0)
		return 2;
	for (size_t i = 0; i < sizeof(waiters) / sizeof(waiters[0]); i++)
		pthread_create(&waiters[i].thread, NULL, run, &waiters[i]);
	while (__atomic_load_n(&begun, __ATOMIC_ACQUIRE) <
	       (int)(sizeof(waiters) / sizeof(waiters[0])))
		usleep(100);
	puts("ready");
	fflush(stdout);
	sigdelset(&set, SIGUSR2);
	sigdelset(&set, SIGRTMAX);
	sigwait(&set, &number);
	is_over = 1;
	for (size_t i = 0; i < sizeof(waiters) / sizeof(waiters[0]); i++) {
		struct waiter *w = &waiters[i];

		pthread_join(w->thread, NULL);
		printf("%s %ld %ld %ld\n", w->name, w->rounds, w->eintrs, w->wrong);
	}
	semctl(semaphore, 0, IPC_RMID);
	while (waitpid(-1, NULL, __WALL | WNOHANG) >= 0 || errno != ECHILD)
		if (++children > 1000)
			break;
	printf("signals %d\nchildren %d\nmasks %d\ncanary %d\n", signals_seen, children,
	       masks_wrong, is_canary_alive());
	return 0;
}
