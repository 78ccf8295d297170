/* SPDX-License-Identifier: MIT */
/* Calls for record_allocs to write down. Nothing else in here allocates. */
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "say.h"

#define WRITE_SIGNAL (SIGRTMAX - 18)

static void say_block(void *p)
{
	say_pointer("block", p);
}

static void go_to_folder(void)
{
	if (chdir(getenv("MEMTRACK_DIR")))
		_exit(1);
}

static void family(void)
{
	void *p = malloc(10);
	say_block(p);
	free(p);
	p = calloc(20, 1);
	say_block(p);
	free(p);
	p = realloc(NULL, 30);
	say_block(p);
	p = realloc(p, 2048);
	say_block(p);
	p = realloc(p, 0);
	say_block(p);
	p = memalign(16, 40);
	say_block(p);
	free(p);
	p = aligned_alloc(32, 64);
	say_block(p);
	free(p);
	if (posix_memalign(&p, 32, 50))
		_exit(1);
	say_block(p);
	free(p);
	raise(WRITE_SIGNAL);
}

static void zero_sizes(void)
{
	say_block(malloc(0));
	say_block(calloc(0, 7));
	say_block(memalign(64, 0));
	raise(WRITE_SIGNAL);
}

static void *make_and_free(void *nothing)
{
	say("thread", (unsigned long)gettid());
	void *p = malloc(100);
	say_block(p);
	free(p);
	return NULL;
}

static pthread_key_t key;

static void free_value(void *value)
{
	free(value);
}

static void *leave_value(void *nothing)
{
	say("thread", (unsigned long)gettid());
	void *p = malloc(100);
	say_block(p);
	pthread_setspecific(key, p);
	return NULL;
}

static void *do_nothing(void *nothing)
{
	say("thread", (unsigned long)gettid());
	return NULL;
}

static void run_thread(void *(*function)(void *))
{
	pthread_t thread;
	if (pthread_create(&thread, NULL, function, NULL) || pthread_join(thread, NULL))
		_exit(1);
}

static void thread(void)
{
	run_thread(make_and_free);
	raise(WRITE_SIGNAL);
}

static void two_threads(void)
{
	run_thread(make_and_free);
	run_thread(make_and_free);
	raise(WRITE_SIGNAL);
}

static void value_of_thread(void)
{
	pthread_key_create(&key, free_value);
	run_thread(leave_value);
	raise(WRITE_SIGNAL);
}

static void idle_thread(void)
{
	run_thread(do_nothing);
	say_block(malloc(8));
}

static void no_file(void)
{
	go_to_folder();
	if (symlink("/nowhere/at/all", "rec"))
		_exit(1);
	void *p = malloc(10);
	say_block(p);
	free(p);
	raise(WRITE_SIGNAL);
	mark("removed");
	unlink("rec");
	raise(WRITE_SIGNAL);
}

static void twice(void)
{
	say_block(malloc(10));
	raise(WRITE_SIGNAL);
	raise(WRITE_SIGNAL);
}

static void fill_up(void)
{
	go_to_folder();
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 5; i++)
			malloc(10 + i);
		raise(WRITE_SIGNAL);
		mark("written");
		if (!round)
			rename("rec", "first");
	}
}

static void leave_blocks(void)
{
	malloc(100);
	malloc(200);
	malloc(400);
}

static void present(void)
{
	void *p = malloc(100);
	say("usable", malloc_usable_size(p));
	memset(p, 1, malloc_usable_size(p));
	free(p);
	p = malloc(4096);
	say("usable", malloc_usable_size(p));
	memset(p, 1, malloc_usable_size(p));
	p = realloc(p, 8192);
}

static void present_pages(void)
{
	long page = sysconf(_SC_PAGESIZE);
	char *p = memalign((size_t)page, 8 * (size_t)page);
	memset(p, 1, 8 * (size_t)page);
	madvise(p, 8 * (size_t)page, MADV_DONTNEED);
	for (int i = 1; i < 7; i += 2)
		p[i * page] = 1;
	say("page", (unsigned long)page);
	free(p);
}

static void nothing_freed(void)
{
	free(NULL);
	say_block(malloc(1));
	raise(WRITE_SIGNAL);
}

static void too_much(void)
{
	errno = 0;
	void *p = malloc(SIZE_MAX);
	say("errno", (unsigned long)errno);
	say_pointer("failed", p);
	p = calloc(SIZE_MAX, 16);
	say_pointer("failed", p);
	p = malloc(10);
	say_block(p);
	say_pointer("failed", realloc(p, SIZE_MAX / 2));
	raise(WRITE_SIGNAL);
}

static void freed_twice(void)
{
	void *p = malloc(10);
	say_block(p);
	free(p);
	free(p);
	raise(WRITE_SIGNAL);
}

static void limited(void)
{
	struct rlimit limit = {1000, RLIM_INFINITY};
	for (int i = 0; i < 100; i++)
		malloc(10);
	if (setrlimit(RLIMIT_FSIZE, &limit))
		_exit(1);
	raise(WRITE_SIGNAL);
	mark("goes on");
	raise(WRITE_SIGNAL);
}

static void forked(void)
{
	void *p = malloc(10);
	say_block(p);
	pid_t child = fork();
	if (!child) {
		free(p);
		exit(0);
	}
	say("child", (unsigned long)child);
	int status;
	waitpid(child, &status, 0);
	say("status", (unsigned long)status);
}

/* --- signals at any moment ----------------------------------------------------------------- */

static pthread_t target;
static volatile int done;

static void *send_signals(void *nothing)
{
	for (int i = 0; i < 3000; i++) {
		if (pthread_kill(target, WRITE_SIGNAL))
			_exit(1);
		usleep(50);
	}
	done = 1;
	return NULL;
}

static void signal_storm(void)
{
	pthread_t sender;
	unsigned long rounds = 0;
	target = pthread_self();
	if (pthread_create(&sender, NULL, send_signals, NULL))
		_exit(1);
	for (; !done; rounds++) {
		void *p = malloc(64 + rounds % 1000);
		p = realloc(p, 3000);
		free(p);
	}
	pthread_join(sender, NULL);
	say("went_on", rounds > 0);
	say_block(malloc(77));
	raise(WRITE_SIGNAL);
}

static const struct say_case cases[] = {
	{"family", family},
	{"zero_sizes", zero_sizes},
	{"thread", thread},
	{"two_threads", two_threads},
	{"value_of_thread", value_of_thread},
	{"idle_thread", idle_thread},
	{"no_file", no_file},
	{"twice", twice},
	{"fill_up", fill_up},
	{"leave_blocks", leave_blocks},
	{"present", present},
	{"present_pages", present_pages},
	{"nothing_freed", nothing_freed},
	{"too_much", too_much},
	{"freed_twice", freed_twice},
	{"limited", limited},
	{"forked", forked},
	{"signal_storm", signal_storm},
};

int main(int argc, char **argv)
{
	return say_main(argc, argv, cases, sizeof(cases) / sizeof(*cases));
}
