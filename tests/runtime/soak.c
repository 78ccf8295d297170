/* SPDX-License-Identifier: MIT */
/*
 * Everything at once: threads that use every allocating function and free each other's blocks,
 * forks from threads, a library that comes and goes, a timer whose handler maps memory. The program
 * counts for itself what it does and prints the sums as NAME=VALUE lines; a state file must hold
 * the same.
 *
 *   soak SECONDS LIBRARY
 */
#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { THREADS = 8, POOL = 4096, FORK_EVERY = 20000 };

struct counts {
	uint64_t allocs, bytes, frees, freed_bytes, reallocs, children;
} __attribute__((aligned(128)));

struct block {
	void *p;
	size_t size;
};

static struct counts count[THREADS];
static struct block pool[POOL];
static int taken[POOL]; /* 1: somebody is at this slot; atomic */
static _Atomic int stop, handler_calls, child_failures;
static void *volatile sink;

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static void die(const char *what)
{
	fprintf(stderr, "soak: %s\n", what);
	_exit(97);
}

static size_t random_size(uint64_t r)
{
	if (r % 512 == 0)
		return 30000 + r / 512 % 200000;
	return r % 8 ? r / 8 % 300 : r / 8 % 5000;
}

static void *allocate(uint64_t r, size_t *size)
{
	void *p = NULL;
	size_t align = (size_t)16 << (r >> 8) % 5;
	switch (r % 10) {
	case 0:
		*size = *size / 3 * 3;
		return calloc(3, *size / 3);
	case 1:
		return posix_memalign(&p, align, *size) ? NULL : p;
	case 2:
		return memalign(align, *size);
	case 3:
		*size = (*size + align) / align * align;
		return aligned_alloc(align, *size);
	case 4:
		return realloc(NULL, *size);
	case 5:
		*size = *size / 7 * 7;
		return reallocarray(NULL, 7, *size / 7);
	case 6:
		return r >> 16 & 63 ? malloc(*size) : valloc(*size);
	default:
		return malloc(*size);
	}
}

static void forget(struct counts *c, struct block *b)
{
	c->frees++;
	c->freed_bytes += b->size;
	free(b->p);
	b->p = NULL;
}

static void resize(struct counts *c, struct block *b, size_t size)
{
	void *p = realloc(b->p, size + 1);
	if (!p)
		die("realloc");
	c->frees++;
	c->freed_bytes += b->size;
	c->allocs++;
	c->bytes += size + 1;
	c->reallocs++;
	b->p = p;
	b->size = size + 1;
}

static void step(struct counts *c, uint64_t r)
{
	uint32_t i = (uint32_t)(r >> 32) % POOL;
	if (__atomic_load_n(&taken[i], __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&taken[i], 1, __ATOMIC_ACQUIRE))
		return;
	struct block *b = &pool[i];
	if (!b->p) {
		b->size = random_size(r >> 8);
		b->p = allocate(r >> 4, &b->size);
		if (!b->p)
			die("allocation");
		c->allocs++;
		c->bytes += b->size;
	} else if (r % 5 == 0) {
		resize(c, b, random_size(r >> 8));
	} else {
		forget(c, b);
	}
	__atomic_store_n(&taken[i], 0, __ATOMIC_RELEASE);
}

/* The child has one thread; it allocates, frees what it inherited, and leaves. */
static void fork_once(struct counts *c, const struct block *inherited)
{
	int status;
	pid_t child = fork();
	if (child == 0) {
		for (int i = 0; i < 50; i++)
			sink = malloc(100 + (size_t)i);
		free(inherited->p);
		_exit(0);
	}
	if (child < 0)
		return;
	c->children++;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			die("waitpid");
	if (status)
		child_failures++;
}

static void *work(void *argument)
{
	struct counts *c = argument;
	uint64_t seed = 0x9e3779b97f4a7c15u * (uint64_t)(c - count + 1);
	struct block own = {malloc(777), 777};
	c->allocs++;
	c->bytes += own.size;
	for (uint64_t n = 1; !stop; n++) {
		step(c, next(&seed));
		if (n % FORK_EVERY == 0)
			fork_once(c, &own);
	}
	forget(c, &own);
	return NULL;
}

static void *load_and_unload(void *path)
{
	while (!stop) {
		void *handle = dlopen(path, RTLD_NOW);
		if (!handle)
			die(dlerror());
		void *(*make)(size_t) = (void *(*)(size_t))dlsym(handle, "soak_make");
		free(make(64));
		dlclose(handle);
	}
	return NULL;
}

static void on_timer(int signal)
{
	int saved = errno;
	void *p = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED)
		munmap(p, 8192);
	handler_calls++;
	errno = saved;
}

static void start_timer(long period_us)
{
	struct sigaction action = {.sa_handler = on_timer, .sa_flags = SA_RESTART};
	struct itimerval timer = {{0, period_us}, {0, period_us}};
	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &timer, NULL);
}

static struct counts sum(void)
{
	struct counts all = {0};
	for (int i = 0; i < THREADS; i++) {
		all.allocs += count[i].allocs;
		all.bytes += count[i].bytes;
		all.frees += count[i].frees;
		all.freed_bytes += count[i].freed_bytes;
		all.reallocs += count[i].reallocs;
		all.children += count[i].children;
	}
	return all;
}

int main(int argc, char **argv)
{
	pthread_t thread[THREADS], loader;
	if (argc != 3)
		return 2;
	start_timer(5000);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, work, &count[i]))
			die("pthread_create");
	if (pthread_create(&loader, NULL, load_and_unload, argv[2]))
		die("pthread_create");
	struct timespec end; /* a point in time: what handlers take must count */
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += atoi(argv[1]);
	while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &end, NULL) == EINTR)
		;
	stop = 1;
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	pthread_join(loader, NULL);
	start_timer(0);
	struct counts all = sum();
	printf("allocs=%ju\nbytes=%ju\nfrees=%ju\nfreed_bytes=%ju\nreallocs=%ju\nchildren=%ju\n",
	       (uintmax_t)all.allocs, (uintmax_t)all.bytes, (uintmax_t)all.frees,
	       (uintmax_t)all.freed_bytes, (uintmax_t)all.reallocs, (uintmax_t)all.children);
	printf("handler_calls=%d\nchild_failures=%d\n", handler_calls, child_failures);
	return child_failures != 0;
}
