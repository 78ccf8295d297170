/* SPDX-License-Identifier: MIT */
/*
 * Places where a program can hold a pointer, and ways to lose one. usage: scenarios NAME [LIBRARY]
 * Does NAME, says "ready LOST INSIDE" (blocks that are lost, and that only pointers into them
 * hold), and waits until standard input ends. "scenarios list" lists the names. "scenarios NAME
 * LIBRARY exit" ends at once: for tools that look at exit.
 */
#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline, noclone))

struct node {
	struct node *next, *other;
	char fill[48];
};

static void *global;
static void *many[1100];
static const char *library;
static int lost, inside, is_exiting;
static __thread void *volatile local;

/* Clears what earlier calls left below the stack pointer and in registers. */
static NOINLINE void scrub(void)
{
	volatile char area[16384];

	for (size_t i = 0; i < sizeof(area); i++)
		area[i] = 0;
#if defined(__x86_64__)
	__asm__ volatile("pxor %%xmm0,%%xmm0; pxor %%xmm1,%%xmm1; pxor %%xmm2,%%xmm2;"
			 "pxor %%xmm3,%%xmm3; pxor %%xmm4,%%xmm4; pxor %%xmm5,%%xmm5;"
			 "pxor %%xmm6,%%xmm6; pxor %%xmm7,%%xmm7; pxor %%xmm8,%%xmm8;"
			 "pxor %%xmm9,%%xmm9; pxor %%xmm10,%%xmm10; pxor %%xmm11,%%xmm11;"
			 "pxor %%xmm12,%%xmm12; pxor %%xmm13,%%xmm13; pxor %%xmm14,%%xmm14;"
			 "pxor %%xmm15,%%xmm15; xor %%r8d,%%r8d; xor %%r9d,%%r9d;"
			 "xor %%r10d,%%r10d; xor %%r11d,%%r11d"
			 :
			 :
			 : "xmm0", "xmm1", "xmm2", "xmm3", "xmm4", "xmm5", "xmm6", "xmm7", "xmm8",
			   "xmm9", "xmm10", "xmm11", "xmm12", "xmm13", "xmm14", "xmm15", "r8", "r9",
			   "r10", "r11");
#endif
}

static void say_ready(void)
{
	char text[64];
	int n = snprintf(text, sizeof(text), "ready %d %d\n", lost, inside);

	if (write(1, text, (size_t)n) != n)
		_exit(3);
}

/* Far below the stack of those who wait, so that what it leaves there is scrubbed. */
static NOINLINE void run_deep(void (*run)(void))
{
	volatile char area[4096];

	area[0] = 0;
	run();
	area[1] = 0;
}

/* Until standard input ends. */
static NOINLINE void wait_here(void)
{
	char c;

	scrub();
	say_ready();
	scrub();
	while (!is_exiting && (read(0, &c, 1) > 0 || errno == EINTR))
		;
}

static NOINLINE void *block(size_t size)
{
	void *p = malloc(size);

	if (!p)
		_exit(4);
	memset(p, 0, size);
	return p;
}

static NOINLINE struct node *chain(int count)
{
	struct node *head = NULL;

	while (count--) {
		struct node *n = block(sizeof(*n));

		n->next = head;
		head = n;
	}
	return head;
}

static NOINLINE struct node *last_of(struct node *n)
{
	while (n->next)
		n = n->next;
	return n;
}

/* ---- held ---- */

static NOINLINE void in_global(void)
{
	global = block(256);
}

static NOINLINE void in_local(void)
{
	void *volatile p = block(256);

	wait_here();
	if (p)
		_exit(0);
}

static NOINLINE void global_cleared(void)
{
	in_global();
	global = NULL;
	lost = 1;
}

static NOINLINE void global_freed(void)
{
	in_global();
	free(global);
	global = NULL;
}

/* A register and nothing else, during a system call. */
#if defined(__x86_64__)
static NOINLINE void wait_with(uint64_t word, int is_vector)
{
	static char c;
	long result;

	say_ready();
	if (is_exiting)
		return;
	do {
		if (is_vector)
			__asm__ volatile("movq %[word], %%xmm7\n\t"
					 "xor %[word], %[word]\n\t"
					 "syscall\n\t"
					 "movq %%xmm7, %[word]"
					 : "=a"(result), [word] "+&r"(word)
					 : "a"((long)SYS_read), "D"(0L), "S"(&c), "d"(1L)
					 : "rcx", "r11", "memory", "xmm7");
		else
			__asm__ volatile("mov %[word], %%r15\n\t"
					 "xor %[word], %[word]\n\t"
					 "syscall\n\t"
					 "mov %%r15, %[word]"
					 : "=a"(result), [word] "+&r"(word)
					 : "a"((long)SYS_read), "D"(0L), "S"(&c), "d"(1L)
					 : "rcx", "r11", "memory", "r15");
	} while (result > 0);
	_exit(0);
}

static NOINLINE uint64_t masked_block(void)
{
	return ~(uint64_t)block(256);
}

static NOINLINE void in_register(void)
{
	uint64_t word = masked_block();

	scrub();
	wait_with(~word, 0);
}

static NOINLINE void in_vector_register(void)
{
	uint64_t word = masked_block();

	scrub();
	wait_with(~word, 1);
}
#endif

static NOINLINE void in_list(void)
{
	global = chain(20);
}

static NOINLINE void in_thread_local(void)
{
	local = block(256);
}

static NOINLINE void in_large_block(void)
{
	void **large = block(1 << 20);

	large[1000] = block(256);
	global = large;
}

static NOINLINE void in_aligned_block(void)
{
	void **p;

	if (posix_memalign((void **)&p, 4096, 5000))
		_exit(4);
	memset(p, 0, 5000);
	p[600] = block(256);
	global = p;
}

static NOINLINE void in_environment(void)
{
	setenv("REACH_SCENARIO", "a value that is long enough for a block of its own", 1);
}

static NOINLINE void in_open_file(void)
{
	if (!fopen("/dev/null", "r"))
		_exit(4);
}

static NOINLINE void of_no_bytes(void)
{
	global = malloc(0);
}

static NOINLINE void in_pool(void)
{
	void **pool =
		mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	pool[100] = block(256);
}

static NOINLINE void in_shared_mapping(void)
{
	void **pool =
		mmap(NULL, 1 << 16, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	pool[100] = block(256);
}

/* A mapping that is as large as wanted, and not for children. */
static NOINLINE void **kept_from_children(size_t bytes, int advice)
{
	void **pool = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (pool == MAP_FAILED || madvise(pool, bytes, advice))
		_exit(4);
	return pool;
}

static NOINLINE void in_memory_not_for_children(void)
{
	kept_from_children(1 << 16, MADV_DONTFORK)[5000] = block(256);
}

static NOINLINE void in_memory_wiped_for_children(void)
{
	kept_from_children(1 << 20, MADV_WIPEONFORK)[70000] = block(256);
}

/* ---- threads ---- */

static pthread_barrier_t barrier;
static pthread_key_t key;

static NOINLINE void *sleep_with_local(void *unused)
{
	void *volatile p = block(256);

	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return p;
}

static NOINLINE void *sleep_with_thread_local(void *unused)
{
	local = block(256);
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static NOINLINE void *sleep_with_key(void *unused)
{
	pthread_setspecific(key, block(256));
	pthread_barrier_wait(&barrier);
	for (;;)
		pause();
	return NULL;
}

static NOINLINE void start(void *(*function)(void *), void *stack, size_t bytes)
{
	pthread_attr_t a;
	pthread_t t;

	pthread_barrier_init(&barrier, NULL, 2);
	pthread_attr_init(&a);
	if (stack)
		pthread_attr_setstack(&a, stack, bytes);
	if (pthread_create(&t, &a, function, NULL))
		_exit(4);
	pthread_barrier_wait(&barrier);
}

static NOINLINE void on_threads_stack(void)
{
	start(sleep_with_local, NULL, 0);
}

static NOINLINE void in_threads_local(void)
{
	start(sleep_with_thread_local, NULL, 0);
}

/* The first 32 lie in the thread's descriptor, the others in a block that it points to. */
static NOINLINE void make_key(int number)
{
	do
		if (pthread_key_create(&key, NULL))
			_exit(4);
	while ((int)key < number);
}

static NOINLINE void in_key(void)
{
	make_key(0);
	pthread_setspecific(key, block(256));
}

static NOINLINE void in_high_key(void)
{
	make_key(60);
	pthread_setspecific(key, block(256));
}

static NOINLINE void in_key_of_thread(void)
{
	make_key(60);
	start(sleep_with_key, NULL, 0);
}

static NOINLINE void in_key_cleared(void)
{
	in_key();
	pthread_setspecific(key, NULL);
	lost = 1;
}

static NOINLINE void on_stack_in_block(void)
{
	enum { BYTES = 1 << 18 };
	void *stack;

	if (posix_memalign(&stack, 4096, BYTES))
		_exit(4);
	start(sleep_with_local, stack, BYTES);
}

static NOINLINE void on_stack_in_mapping(void)
{
	enum { BYTES = 1 << 18 };

	start(sleep_with_local,
	      mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0), BYTES);
}

static NOINLINE void *lose_and_end(void *unused)
{
	void *volatile p = block(256);

	p = NULL;
	return p;
}

static NOINLINE void lost_by_thread(void)
{
	pthread_t t;

	if (pthread_create(&t, NULL, lose_and_end, NULL) || pthread_join(t, NULL))
		_exit(4);
	lost = 1;
}

static NOINLINE void in_handler(int number)
{
	void *volatile p = block(300);

	wait_here();
	if (p)
		_exit(0);
}

static NOINLINE void on_signal_stack(void)
{
	void *volatile mine = block(256);
	stack_t s = {.ss_size = 1 << 16};
	struct sigaction a = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK};

	s.ss_sp = mmap(NULL, s.ss_size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	sigaltstack(&s, NULL);
	sigaction(SIGUSR1, &a, NULL);
	raise(SIGUSR1);
	if (mine)
		_exit(0);
}

#if defined(__GLIBC__)
static ucontext_t main_context, other_context;

static NOINLINE void coroutine(void)
{
	void *volatile p = block(256);

	swapcontext(&other_context, &main_context);
	if (p)
		_exit(0);
}

static NOINLINE void on_coroutines_stack(void)
{
	enum { BYTES = 1 << 16 };

	getcontext(&other_context);
	other_context.uc_stack.ss_sp =
		mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	other_context.uc_stack.ss_size = BYTES;
	makecontext(&other_context, coroutine, 0);
	swapcontext(&main_context, &other_context);
}
#endif

/* ---- libraries ---- */

static NOINLINE void call_library(const char *name)
{
	void *l = dlopen(library, RTLD_NOW);
	void (*keep)(void *) = l ? (void (*)(void *))dlsym(l, name) : NULL;

	if (!keep)
		_exit(5);
	keep(block(256));
}

static NOINLINE void in_library(void)
{
	call_library("keep_in_data");
}

static NOINLINE void in_librarys_thread_local(void)
{
	call_library("keep_in_thread_local");
}

/* ---- interior, changed ---- */

static NOINLINE void by_interior_pointer(void)
{
	global = (char *)block(256) + 64;
	inside = 1;
}

static NOINLINE void chain_from_interior_pointer(void)
{
	struct node *n = chain(4);

	global = &n->fill[8];
	inside = 4;
}

static NOINLINE void past_the_end(void)
{
	global = (char *)block(264) + 264 + 16;
	lost = 1;
}

static NOINLINE void in_changed_pointer(void)
{
	global = (void *)~(uintptr_t)block(256);
	lost = 1;
}

static NOINLINE void in_low_tagged_pointer(void)
{
	global = (char *)block(256) + 5;
	inside = 1;
}

static NOINLINE void in_top_tagged_pointer(void)
{
	global = (void *)((uintptr_t)block(256) | (uintptr_t)0xb4 << 56);
	lost = 1;
}

static char packed[64] __attribute__((aligned(16)));

static NOINLINE void in_packed_pointer(void)
{
	void *p = block(256);

	memcpy(packed + 5, &p, sizeof(p));
	p = NULL;
	lost = 1;
}

/* As a compiler at run time does: the address is part of an instruction. */
static NOINLINE void in_made_code(void)
{
	char *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	void *p = block(256);

	if (code == MAP_FAILED)
		_exit(4);
	code[0] = 0x48; /* movabs $p, %rax */
	code[1] = (char)0xb8;
	memcpy(code + 2, &p, sizeof(p));
	p = NULL;
	if (mprotect(code, 4096, PROT_READ | PROT_EXEC))
		_exit(4);
}

static NOINLINE void in_event_queue(void)
{
	struct epoll_event e = {.events = EPOLLIN};
	static int ends[2];

	if (pipe(ends))
		_exit(4);
	e.data.ptr = block(256);
	epoll_ctl(epoll_create1(0), EPOLL_CTL_ADD, ends[0], &e);
	lost = 1;
}

static NOINLINE void in_pipe(void)
{
	static int ends[2];
	void *p = block(256);

	if (pipe(ends) || write(ends[1], &p, sizeof(p)) != sizeof(p))
		_exit(4);
	p = NULL;
	lost = 1;
}

/* ---- lost ---- */

static NOINLINE void lost_block(void)
{
	void *volatile p = block(100);

	p = NULL;
	lost = 1;
}

static NOINLINE void lost_large_block(void)
{
	void *volatile p = block(1 << 20);

	p = NULL;
	lost = 1;
}

static NOINLINE void lost_list(void)
{
	void *volatile p = chain(10);

	p = NULL;
	lost = 10;
}

static NOINLINE void lost_list_but_end(void)
{
	global = last_of(chain(10));
	lost = 9;
}

static NOINLINE void lost_ring(void)
{
	struct node *volatile n = chain(1000);

	last_of(n)->next = n;
	n = NULL;
	lost = 1000;
}

static NOINLINE void lost_pair(void)
{
	struct node *a = block(sizeof(*a)), *b = block(sizeof(*b));

	a->next = b;
	b->next = a;
	b->other = block(sizeof(*b));
	lost = 3;
}

static NOINLINE void lost_diamond(void)
{
	struct node *n = block(sizeof(*n));

	n->next = block(sizeof(*n));
	n->other = block(sizeof(*n));
	n->next->next = n->other->next = block(sizeof(*n));
	lost = 4;
}

static NOINLINE void lost_beside_held(void)
{
	struct node *n = chain(3);

	global = n->next;
	n = NULL;
	lost = 1;
}

static NOINLINE void lost_in_freed_block(void)
{
	void **p = block(512);

	p[30] = block(256);
	free(p);
	lost = 1;
}

static NOINLINE void lost_below_stack(void)
{
	void *volatile deep[64];

	deep[1] = block(256);
	deep[1] = NULL;
	lost = 1;
}

static NOINLINE void lost_of_no_bytes(void)
{
	void *volatile p = malloc(0);

	p = NULL;
	lost = 1;
}

/* C176 */
static NOINLINE void many_hidden(void)
{
	enum { COUNT = 1024 };

	for (int i = 0; i < COUNT; i++)
		many[i] = block(40 + (size_t)i % 7 * 32);
	memset(many, 0, sizeof(many));
	lost = COUNT;
}

/* C179 */
static NOINLINE void freed_in_cache(void)
{
	for (int size = 16; size < 1000; size += 64) {
		for (int i = 0; i < 7; i++)
			many[i] = block((size_t)size);
		for (int i = 0; i < 7; i++)
			free(many[i]);
	}
	memset(many, 0, sizeof(many));
}

static NOINLINE void two_of_one_site(void)
{
	for (volatile int i = 0; i < 2; i++)
		many[i] = malloc(200);
	memset(many, 0, sizeof(many));
	lost = 2;
}

static const struct scenario {
	const char *name;
	void (*run)(void);
} scenarios[] = {
	{"in_global", in_global},
	{"in_local", in_local},
	{"global_cleared", global_cleared},
	{"global_freed", global_freed},
#if defined(__x86_64__)
	{"in_register", in_register},
	{"in_vector_register", in_vector_register},
#endif
	{"in_list", in_list},
	{"in_thread_local", in_thread_local},
	{"in_large_block", in_large_block},
	{"in_aligned_block", in_aligned_block},
	{"in_environment", in_environment},
	{"in_open_file", in_open_file},
	{"of_no_bytes", of_no_bytes},
	{"in_pool", in_pool},
	{"in_shared_mapping", in_shared_mapping},
	{"in_memory_not_for_children", in_memory_not_for_children},
	{"in_memory_wiped_for_children", in_memory_wiped_for_children},
	{"on_threads_stack", on_threads_stack},
	{"in_threads_local", in_threads_local},
	{"in_key", in_key},
	{"in_high_key", in_high_key},
	{"in_key_of_thread", in_key_of_thread},
	{"in_key_cleared", in_key_cleared},
	{"on_stack_in_block", on_stack_in_block},
	{"on_stack_in_mapping", on_stack_in_mapping},
	{"lost_by_thread", lost_by_thread},
	{"on_signal_stack", on_signal_stack},
#if defined(__GLIBC__)
	{"on_coroutines_stack", on_coroutines_stack},
#endif
	{"in_library", in_library},
	{"in_librarys_thread_local", in_librarys_thread_local},
	{"by_interior_pointer", by_interior_pointer},
	{"chain_from_interior_pointer", chain_from_interior_pointer},
	{"past_the_end", past_the_end},
	{"in_changed_pointer", in_changed_pointer},
	{"in_low_tagged_pointer", in_low_tagged_pointer},
	{"in_top_tagged_pointer", in_top_tagged_pointer},
	{"in_packed_pointer", in_packed_pointer},
	{"in_made_code", in_made_code},
	{"in_event_queue", in_event_queue},
	{"in_pipe", in_pipe},
	{"lost_block", lost_block},
	{"lost_large_block", lost_large_block},
	{"lost_list", lost_list},
	{"lost_list_but_end", lost_list_but_end},
	{"lost_ring", lost_ring},
	{"lost_pair", lost_pair},
	{"lost_diamond", lost_diamond},
	{"lost_beside_held", lost_beside_held},
	{"lost_in_freed_block", lost_in_freed_block},
	{"lost_below_stack", lost_below_stack},
	{"lost_of_no_bytes", lost_of_no_bytes},
	{"many_hidden", many_hidden},
	{"freed_in_cache", freed_in_cache},
	{"two_of_one_site", two_of_one_site},
};

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : "list";

	library = argc > 2 ? argv[2] : NULL;
	is_exiting = argc > 3;
	for (size_t i = 0; i < sizeof(scenarios) / sizeof(*scenarios); i++) {
		if (!strcmp(name, "list"))
			puts(scenarios[i].name);
		if (strcmp(name, scenarios[i].name))
			continue;
		run_deep(scenarios[i].run);
		wait_here();
		if (is_exiting)
			return 0;
		_exit(0);
	}
	return strcmp(name, "list") ? 2 : 0;
}
