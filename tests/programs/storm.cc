/* SPDX-License-Identifier: MIT */
/*
 * Everything at once, counted by the program itself: threads that use every allocating function and
 * free each other's blocks, forks from threads, and signals from timers and from a peer. A handler
 * acts when it interrupts the tracker, never the allocator, so the bare program is sound: it
 * allocates, frees, maps and forks. The counts go to a file.
 *
 *   storm SECONDS FORKS STACK_BYTES SIGNALS COUNTS
 *
 * FORKS: made at least; the program goes on until they are done. STACK_BYTES of each thread; 0:
 * PTHREAD_STACK_MIN. SIGNALS: 0 or 1.
 */
#include <cerrno>
#include <initializer_list>
#include <malloc.h>
#include <new>
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>

#include "tracker_code.h"
#include <memtrack.h>

enum { THREADS = 8, POOL = 2048, KINDS = 20, CHILD_ROUNDS = 4 };

struct counts {
	volatile long allocs, bytes, frees, freed_bytes, maps, unmaps, pool_allocs, pool_frees,
		forks, inside, outside;
} __attribute__((aligned(128)));

/* A handler has counters of its own: those of the thread that it interrupts may be half changed. */
static counts count[THREADS], handler_count[THREADS];
static __thread counts *mine, *handlers;
static __thread uint64_t handler_seed;
static __thread volatile int is_child;
static volatile int stop, child_failures;
static volatile long forks_left;
static uint32_t heap;

struct block {
	void *p;
	size_t size;
	unsigned kind;
	int in_heap;
};
static block pool[POOL];
static int taken[POOL];

static uint64_t next(uint64_t *seed)
{
	*seed ^= *seed << 13;
	*seed ^= *seed >> 7;
	*seed ^= *seed << 17;
	return *seed;
}

static char text[5001];

static const char *text_of(size_t size)
{
	return text + sizeof(text) - size;
}

/* long: one case for each function of the family */
static void *allocate(unsigned kind, size_t *size)
{
	const std::align_val_t align{64};
	void *p = NULL;
	if (kind == 3 ||
	    (kind >= 14 && kind <= 17)) /* libstdc++ rounds as aligned_alloc wants it */
		*size = (*size + 63) & ~(size_t)63;
	switch (kind) {
	case 0:
		return calloc(1, *size);
	case 1:
		return posix_memalign(&p, 128, *size) ? NULL : p;
	case 2:
		return memalign(32, *size);
	case 3:
		return aligned_alloc(64, *size);
	case 4:
		return valloc(*size);
	case 5:
		return pvalloc(*size);
	case 6:
		return realloc(NULL, *size);
	case 7:
		*size = *size / 7 * 7 + 7;
		return reallocarray(NULL, 7, *size / 7);
	case 8:
		*size = *size % 5000 + 1;
		return strdup(text_of(*size));
	case 9:
		*size = *size % 4999 + 1;
		return strndup(text, *size - 1);
	case 10:
		return operator new(*size);
	case 11:
		return operator new[](*size);
	case 12:
		return operator new(*size, std::nothrow);
	case 13:
		return operator new[](*size, std::nothrow);
	case 14:
		return operator new(*size, align);
	case 15:
		return operator new[](*size, align);
	case 16:
		return operator new(*size, align, std::nothrow);
	case 17:
		return operator new[](*size, align, std::nothrow);
	default:
		return malloc(*size);
	}
}

/* long: one case for each form of delete */
static void release(unsigned kind, void *p, size_t size, int other)
{
	const std::align_val_t align{64};
	switch (kind) {
	case 10:
		return other ? operator delete(p) : operator delete(p, size);
	case 11:
		return other ? operator delete[](p) : operator delete[](p, size);
	case 12:
		return other ? operator delete(p) : operator delete(p, std::nothrow);
	case 13:
		return other ? operator delete[](p) : operator delete[](p, std::nothrow);
	case 14:
		return other ? operator delete(p, align) : operator delete(p, size, align);
	case 15:
		return other ? operator delete[](p, align) : operator delete[](p, size, align);
	case 16:
		return operator delete(p, align, std::nothrow);
	case 17:
		return operator delete[](p, align, std::nothrow);
	default:
		return free(p);
	}
}

static void fill(counts *c, block *b, uint64_t r)
{
	b->kind = (unsigned)(r % KINDS);
	b->size = r >> 8 & 255 ? (r >> 16) % 700 + 1 : 30000 + (r >> 16) % 200000;
	b->p = allocate(b->kind, &b->size);
	b->in_heap = heap && !(r >> 50 & 7);
	if (!b->p)
		fail("allocation");
	c->allocs++;
	c->bytes += (long)b->size;
	if (b->in_heap) {
		memtrack_heap_alloc(heap, b->p, b->size);
		c->pool_allocs++;
	}
}

static void empty(counts *c, block *b, uint64_t r)
{
	if (b->in_heap) {
		memtrack_heap_free(heap, b->p);
		c->pool_frees++;
	}
	c->frees++;
	c->freed_bytes += (long)b->size;
	release(b->kind, b->p, b->size, (int)(r >> 9 & 1));
	b->p = NULL;
}

/* Only what malloc's own family made may be resized. */
static void resize(counts *c, block *b, uint64_t r)
{
	size_t size = r >> 20 & 255 ? (r >> 24) % 2000 + 1 : 50000;
	if (b->in_heap || (b->kind >= 10 && b->kind < 18))
		return;
	b->p = r >> 60 & 1 ? realloc(b->p, size) : reallocarray(b->p, 1, size);
	if (!b->p)
		fail("realloc");
	c->frees++;
	c->freed_bytes += (long)b->size;
	c->allocs++;
	c->bytes += (long)size;
	b->size = size;
}

static void map(counts *c, uint64_t r)
{
	size_t size = 4096 + (r & 0xf000);
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p == MAP_FAILED)
		fail("mmap");
	c->maps++;
	if (r >> 20 & 1) {
		p = mremap(p, size, size + 8192, MREMAP_MAYMOVE);
		size += 8192;
		c->maps++;
		c->unmaps++;
	}
	munmap(p, size);
	c->unmaps++;
}

static void step(counts *c, uint64_t r)
{
	uint32_t i = (uint32_t)(r >> 40) % POOL;
	if (r % 256 == 0)
		map(c, r >> 8);
	if (__atomic_load_n(&taken[i], __ATOMIC_RELAXED) ||
	    __atomic_exchange_n(&taken[i], 1, __ATOMIC_ACQUIRE))
		return;
	if (!pool[i].p)
		fill(c, &pool[i], r);
	else if (r % 5 == 0)
		resize(c, &pool[i], r >> 4);
	else
		empty(c, &pool[i], r);
	__atomic_store_n(&taken[i], 0, __ATOMIC_RELEASE);
}

/* Depth of its own for each kind of step, so that there are many sites. */
static __attribute__((noinline)) int deep(counts *c, uint64_t r, unsigned depth)
{
	int n = depth ? deep(c, r, depth - 1) : (step(c, r), 0);
	return n + (int)opaque_zero;
}

/* --- children: one thread each; what they do is always the same --- */

static void child_work(void)
{
	counts c = {};
	block b[KINDS] = {};
	for (uint64_t round = 0; round < CHILD_ROUNDS; round++)
		for (uint64_t i = 0; i < KINDS; i++) {
			if (b[i].p)
				empty(&c, &b[i], 0);
			fill(&c, &b[i], i + 256 + (i << 20));
		}
	_exit(0);
}

static void wait_for(pid_t child)
{
	int status;
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			fail("waitpid");
	if (status)
		__atomic_fetch_add(&child_failures, 1, __ATOMIC_RELAXED);
}

static void fork_once(counts *c)
{
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (!child)
		child_work();
	c->forks++;
	wait_for(child);
}

/* --- signals --- */

static void act(counts *c, uint64_t r)
{
	block b = {};
	if (r % 64 == 0) {
		pid_t child = fork();
		if (!child) {
			is_child = 1; /* and the interrupted call goes on */
			return;
		}
		c->forks++;
		wait_for(child);
		return;
	}
	fill(c, &b, (r >> 8) | 256); /* small */
	resize(c, &b, r | 255 << 20);
	empty(c, &b, r);
	if (r % 8 == 1)
		map(c, r & ~(1ull << 20));
	uint32_t i = (uint32_t)(r >> 40) % POOL; /* a block of anybody */
	if (!__atomic_exchange_n(&taken[i], 1, __ATOMIC_ACQUIRE)) {
		if (pool[i].p)
			empty(c, &pool[i], r);
		__atomic_store_n(&taken[i], 0, __ATOMIC_RELEASE);
	}
}

static void on_signal(int number, siginfo_t *info, void *context)
{
	const ucontext_t *u = (const ucontext_t *)context;
#if defined(__x86_64__)
	uintptr_t pc = (uintptr_t)u->uc_mcontext.gregs[REG_RIP];
#else
	uintptr_t pc = (uintptr_t)u->uc_mcontext.pc;
#endif
	int saved = errno;
	if (is_child || !handlers)
		return;
	if (pc < code_from || pc >= code_to) {
		handlers->outside++;
		return;
	}
	handlers->inside++;
	act(handlers, next(&handler_seed));
	errno = saved;
}

static timer_t start_timer(void)
{
	struct sigevent event = {};
	struct itimerspec every = {{0, 400000}, {0, 400000}};
	timer_t timer;
	event.sigev_notify = SIGEV_THREAD_ID;
	event.sigev_signo = SIGRTMIN;
	event._sigev_un._tid = (int)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &timer) || timer_settime(timer, 0, &every, NULL))
		fail("timer");
	return timer;
}

static void block_signals(int how)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGRTMIN);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(how, &set, NULL);
}

static pthread_t thread[THREADS];
static volatile int running, go;
static int with_signals;

static void *work(void *argument)
{
	long number = (long)argument;
	uint64_t seed = 0x9e3779b97f4a7c15u * (uint64_t)(number + 1);
	timer_t timer = NULL;
	while (!__atomic_load_n(&go, __ATOMIC_ACQUIRE)) /* until all peers are known */
		sched_yield();
	mine = &count[number];
	handler_seed = seed * 3;
	handlers = &handler_count[number];
	if (with_signals) {
		timer = start_timer();
		block_signals(SIG_UNBLOCK);
	}
	for (uint64_t n = 1; !stop; n++) {
		uint64_t r = next(&seed);
		deep(mine, r, (unsigned)(r >> 32) % 6);
		if (is_child)
			child_work();
		if (n % 512 == 0 && forks_left > 0 &&
		    __atomic_fetch_sub(&forks_left, 1, __ATOMIC_RELAXED) > 0)
			fork_once(mine);
		if (with_signals && n % 64 == 0)
			pthread_kill(thread[r % THREADS], SIGUSR1);
		if (is_child)
			child_work();
	}
	block_signals(SIG_BLOCK);
	if (with_signals)
		timer_delete(timer);
	__atomic_fetch_sub(&running, 1, __ATOMIC_RELEASE);
	return NULL;
}

static void write_counts(const char *path)
{
	static char out[2048];
	counts all = {};
	for (int i = 0; i < THREADS; i++)
		for (const counts *c : {&count[i], &handler_count[i]}) {
			const volatile long *from = (const volatile long *)c;
			for (size_t k = 0; k < offsetof(counts, outside) / sizeof(long) + 1; k++)
				((volatile long *)&all)[k] += from[k];
		}
	long handler_allocs = 0;
	for (int i = 0; i < THREADS; i++)
		handler_allocs += handler_count[i].allocs;
	int n = snprintf(
		out, sizeof(out),
		"allocs=%ld\nbytes=%ld\nfrees=%ld\nfreed_bytes=%ld\nmaps=%ld\nunmaps=%ld\npool_allocs=%ld\n"
		"pool_frees=%ld\nforks=%ld\ninside=%ld\noutside=%ld\nhandler_allocs=%ld\n",
		all.allocs, all.bytes, all.frees, all.freed_bytes, all.maps, all.unmaps,
		all.pool_allocs, all.pool_frees, all.forks, all.inside, all.outside,
		handler_allocs);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	if (fd < 0 || write(fd, out, (size_t)n) != n)
		fail("counts");
	close(fd);
}

static void run_threads(int seconds, size_t stack)
{
	struct timespec tick = {0, 20000000}, now, end;
	pthread_attr_t attr;
	pthread_attr_init(&attr);
	if (pthread_attr_setstacksize(&attr, stack))
		fail("stack size");
	block_signals(SIG_BLOCK);
	running = THREADS;
	for (long i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], &attr, work, (void *)i))
			fail("pthread_create");
	__atomic_store_n(&go, 1, __ATOMIC_RELEASE);
	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += seconds;
	do {
		nanosleep(&tick, NULL);
		clock_gettime(CLOCK_MONOTONIC, &now);
	} while (now.tv_sec < end.tv_sec || forks_left > 0);
	stop = 1;
	while (__atomic_load_n(&running, __ATOMIC_ACQUIRE)) /* a peer may still be signalled */
		nanosleep(&tick, NULL);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
}

int main(int argc, char **argv)
{
	struct sigaction action = {};
	if (argc != 6)
		fail("arguments");
	memset(text, 'x', sizeof(text) - 1);
	action.sa_sigaction = on_signal;
	action.sa_flags = SA_SIGINFO | SA_RESTART;
	sigfillset(&action.sa_mask);
	sigaction(SIGRTMIN, &action, NULL);
	sigaction(SIGUSR1, &action, NULL);
	find_tracker_code();
	forks_left = atol(argv[2]);
	size_t stack = (size_t)atol(argv[3]);
	with_signals = atoi(argv[4]);
	heap = memtrack_heap_register ? memtrack_heap_register("pool") : 0;
	run_threads(atoi(argv[1]), stack ? stack : (size_t)PTHREAD_STACK_MIN);
	write_counts(argv[5]);
	say("children that failed: %d\n", child_failures);
	return 0;
}
