/* SPDX-License-Identifier: MIT */
/*
 * Does what its arguments say, one after the other: "options malloc 10 raise 47 free exit 3". Words
 * that take an argument have it behind them.
 */
#include "say.h"

#include <errno.h>
#include <fcntl.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/wait.h>

static char *volatile p;
static size_t size; /* of the last malloc */

static void on_signal(int number)
{
	say("handled", (unsigned long)number);
}

static void set_handler(int number)
{
	struct sigaction a = {.sa_handler = on_signal};
	sigaction(number, &a, NULL);
}

static void double_free(void)
{
	free(p);
	errno = 77;
	free(p);
	say("errno", (unsigned long)errno);
}

/* Every descriptor is this file's afterwards. */
static void take_all_descriptors(const char *file)
{
	int fd = open(file, O_RDWR | O_CREAT, 0600);
	for (int i = 0; i < 1024; i++)
		if (i != fd && i != 1)
			dup2(fd, i);
}

static void say_next_descriptor(void)
{
	int fd = open("/dev/null", O_RDONLY);
	say("descriptor", (unsigned long)fd);
	close(fd);
}

/* Its own end is told by its child alone, which goes on. */
static void fork_and_wait(void)
{
	int status;
	pid_t child = fork();
	if (!child)
		return;
	say("child", (unsigned long)child);
	waitpid(child, &status, 0);
	_exit(WIFEXITED(status) ? WEXITSTATUS(status) : 98);
}

/* As a service does: the parent goes, the child lets go of what it was started with. */
static void become_daemon(void)
{
	int null = open("/dev/null", O_RDWR);
	pid_t child = fork();
	if (child) {
		say("child", (unsigned long)child);
		_exit(0);
	}
	free(malloc(1));
	for (int i = 0; i < 3; i++)
		dup2(null, i);
	free(malloc(1));
	sleep(60);
}

static void *work(void *nothing)
{
	void *block[16] = {0};
	for (unsigned i = 0;; i++) {
		block[i % 16] = realloc(block[i % 16], 1 + i % 1000);
		if (i % 3 == 0) {
			free(block[i / 3 % 16]);
			block[i / 3 % 16] = NULL;
		}
	}
	return NULL;
}

/* Threads that are at work until the program ends. */
static void begin_work(int threads)
{
	pthread_t t;
	while (threads-- && !pthread_create(&t, NULL, work, NULL))
		;
}

static void fill_pipe(int fd)
{
	static char text[4096];
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
	while (write(fd, text, sizeof(text)) > 0)
		;
	while (write(fd, text, 1) > 0)
		;
}

/* The next write to a full pipe waits for its reader. */
static void stuff_pipe(int fd)
{
	fill_pipe(fd);
	fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK);
}

static void keep_blocks(int count)
{
	while (count--)
		if (!malloc(8))
			exit(96);
}

/* 1: it was a word without an argument. */
static int do_word(const char *word)
{
	if (!strcmp(word, "free"))
		free(p);
	else if (!strcmp(word, "usable"))
		malloc_usable_size(p);
	else if (!strcmp(word, "twice"))
		double_free();
	else if (!strcmp(word, "damage"))
		p[-32] = 0;
	else if (!strcmp(word, "overrun"))
		p[size] = 0;
	else if (!strcmp(word, "spoil"))
		p[0] = 0;
	else if (!strcmp(word, "next"))
		say_next_descriptor();
	else if (!strcmp(word, "fork"))
		fork_and_wait();
	else if (!strcmp(word, "daemon"))
		become_daemon();
	else if (!strcmp(word, "print"))
		printf("printed\n");
	else if (!strcmp(word, "wait")) /* until somebody closes standard input */
		say("waited", (unsigned long)read(0, &(char){0}, 1));
	else
		return 0;
	return 1;
}

static void do_argument(const char *word, const char *argument)
{
	int n = atoi(argument);
	if (!strcmp(word, "malloc"))
		say_pointer("p", p = malloc(size = (size_t)n));
	else if (!strcmp(word, "calloc"))
		say_pointer("p", p = calloc(1, (size_t)n));
	else if (!strcmp(word, "raise"))
		raise(n);
	else if (!strcmp(word, "handler"))
		set_handler(n);
	else if (!strcmp(word, "signal"))
		signal(n, on_signal);
	else if (!strcmp(word, "close"))
		close(n);
	else if (!strcmp(word, "takeall"))
		take_all_descriptors(argument);
	else if (!strcmp(word, "fill"))
		fill_pipe(n);
	else if (!strcmp(word, "stuff"))
		stuff_pipe(n);
	else if (!strcmp(word, "keep"))
		keep_blocks(n);
	else if (!strcmp(word, "work"))
		begin_work(n);
	else if (!strcmp(word, "mark"))
		mark(argument);
	else if (!strcmp(word, "exit"))
		exit(n);
	else if (!strcmp(word, "_exit"))
		_exit(n);
	else
		exit(97);
}

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++)
		if (!do_word(argv[i])) {
			do_argument(argv[i], i + 1 < argc ? argv[i + 1] : "");
			i++;
		}
	return 0;
}
