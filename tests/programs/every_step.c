/* SPDX-License-Identifier: MIT */
/*
 * A signal at every single instruction of the tracker. A call is run with the processor's trap flag
 * to see which instructions of libmemtrack it passes, then again with a breakpoint at each of them.
 * The handler does what handlers do: it allocates, frees and resizes (touch), forks (fork), or
 * leaves by siglongjmp (jump). The allocator itself is never
 * interrupted, so a bare C library survives this. What the program did is counted in a file.
 *
 *   every_step touch|fork|jump CALL COUNTS [STRIDE]
 */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <ucontext.h>

#include "tracker_code.h"

enum { TRAP_FLAG = 0x100, MOST_PLACES = 60000, LARGE = 200000 };

static volatile long acted;
static volatile long allocs, frees, maps;
static void (*volatile act)(ucontext_t *);
static sigjmp_buf back;
static void *volatile victim[2]; /* small, large: blocks for the handler to free */

static void *get(size_t size)
{
	void *p = malloc(size);
	if (!p)
		fail("malloc");
	allocs++;
	return p;
}

static void drop(void *p)
{
	frees++;
	free(p);
}

static void *grow(void *p, size_t size)
{
	allocs++;
	frees++;
	p = realloc(p, size);
	if (!p)
		fail("realloc");
	return p;
}

/* --- calls that are stepped through --- */

static void small_block(void)
{
	drop(get(40));
}

static void large_block(void)
{
	drop(get(LARGE));
}

static void resized(void)
{
	drop(grow(get(50), 5000));
}

static void cleared(void)
{
	allocs++;
	drop(calloc(3, 30));
}

static void aligned(void)
{
	void *p = NULL;
	allocs++;
	if (posix_memalign(&p, 64, 100))
		fail("posix_memalign");
	drop(p);
}

static void mapped(void)
{
	void *p = mmap(NULL, 8192, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	munmap(p, 8192);
	maps++;
}

/* A stack that was never seen: one bit of the number a frame. */
static __attribute__((noinline)) void *path(unsigned bits, int left)
{
	void *volatile p;
	if (!left)
		p = get(60);
	else if (bits & 1)
		p = path(bits >> 1, left - 1);
	else
		p = path(bits >> 1, left - 1);
	return p;
}

static void fresh_stack(void)
{
	static unsigned number;
	drop(path(number++, 14));
}

static void exercise(void)
{
	void *p[20];
	for (int i = 0; i < 20; i++)
		p[i] = get((size_t)i * 3000 + 1);
	for (int i = 0; i < 20; i++)
		drop(p[i]);
	mapped();
}

/* A child goes on where its parent was interrupted, and ends here. */
static volatile int is_child;

static void child_ends(void)
{
	if (!is_child)
		return;
	exercise();
	_exit(0);
}

/* --- stepping --- */

static uint8_t seen[4 << 20];         /* by offset in the code */
static uintptr_t places[MOST_PLACES]; /* instructions that the call passes, in their order */
static volatile int place_count, tracing;
static volatile uintptr_t armed; /* where a breakpoint stands; 0: none */
static uint8_t under_it;

static void trap(int on)
{
	__asm__ volatile("pushfq\n\tandq $~0x100, (%%rsp)\n\torq %0, (%%rsp)\n\tpopfq"
			 :
			 : "r"(on ? (long)TRAP_FLAG : 0L)
			 : "cc", "memory");
}

static __attribute__((noinline)) void traced(void (*call)(void))
{
	trap(tracing);
	call();
	trap(0);
}

static void *in_thread(void *call)
{
	traced((void (*)(void))call);
	child_ends();
	return NULL;
}

/* A thread's first allocation. */
static void fresh_thread(void)
{
	pthread_t thread;
	trap(0);
	if (pthread_create(&thread, NULL, in_thread, (void *)small_block))
		fail("pthread_create");
	pthread_join(thread, NULL);
}

static void arm(uintptr_t pc)
{
	armed = pc;
	under_it = *(volatile uint8_t *)pc;
	*(volatile uint8_t *)pc = 0xcc;
}

static void disarm(void)
{
	if (armed)
		*(volatile uint8_t *)armed = under_it;
	armed = 0;
}

/* Where the tracker has signals blocked none can come. */
static int can_come(const ucontext_t *c)
{
	return sigismember(&c->uc_sigmask, SIGUSR1) == 0;
}

static void note_place(uintptr_t pc)
{
	if (pc < code_from || pc >= code_to || seen[pc - code_from] || place_count == MOST_PLACES)
		return;
	seen[pc - code_from] = 1;
	places[place_count++] = pc;
}

/* The breakpoint stands where code passes that cannot be interrupted: over it, by one step. */
static void step_over(ucontext_t *c)
{
	static uintptr_t again;
	greg_t *flags = &c->uc_mcontext.gregs[REG_EFL];
	if (armed) {
		again = armed;
		disarm();
		*flags |= TRAP_FLAG;
	} else {
		*flags &= ~(greg_t)TRAP_FLAG;
		arm(again);
	}
}

static void on_trap(int number, siginfo_t *info, void *context)
{
	ucontext_t *c = (ucontext_t *)context;
	greg_t *pc = &c->uc_mcontext.gregs[REG_RIP];
	if (tracing) {
		if (can_come(c))
			note_place((uintptr_t)*pc);
		return;
	}
	if (armed && (uintptr_t)*pc != armed + 1)
		fail("a trap that was not set");
	*pc -= armed != 0;
	if (!armed || !can_come(c)) {
		step_over(c);
		return;
	}
	disarm();
	acted++;
	act(c);
}

/* --- what the handler does --- */

static void touch(ucontext_t *c)
{
	void *p = get(70);
	if (victim[0])
		drop(victim[0]);
	if (victim[1])
		drop(victim[1]);
	victim[0] = victim[1] = NULL;
	drop(grow(p, LARGE));
	mapped();
}

static void fork_here(ucontext_t *c)
{
	int status;
	pid_t child = fork();
	if (child < 0)
		fail("fork");
	if (!child) {
		if (acted & 1)
			exercise();
		is_child = 1;
		return;
	}
	if (waitpid(child, &status, 0) != child || status)
		fail("the child");
}

static void jump(ucontext_t *c)
{
	siglongjmp(back, 1);
}

/* --- */

static void write_counts(const char *path)
{
	char text[256];
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
	int n = snprintf(text, sizeof(text),
			 "allocs=%ld\nfrees=%ld\nmaps=%ld\nacted=%ld\nplaces=%d\n", allocs, frees,
			 maps, acted, place_count);
	if (fd < 0 || write(fd, text, (size_t)n) != n)
		fail("counts");
	close(fd);
}

static const struct {
	const char *name;
	void (*call)(void);
} calls[] = {{"small", small_block},       {"large", large_block},        {"resized", resized},
	     {"cleared", cleared},         {"aligned", aligned},          {"mapped", mapped},
	     {"fresh stack", fresh_stack}, {"fresh thread", fresh_thread}};

int main(int argc, char **argv)
{
	struct sigaction action = {.sa_sigaction = on_trap, .sa_flags = SA_SIGINFO};
	void (*volatile call)(void) = NULL;
	volatile int i, stride = argc > 4 ? atoi(argv[4]) : 1;
	if (argc < 4)
		fail("arguments");
	for (size_t n = 0; n < sizeof(calls) / sizeof(calls[0]); n++)
		if (!strcmp(argv[2], calls[n].name))
			call = calls[n].call;
	act = argv[1][0] == 't' ? touch : argv[1][0] == 'f' ? fork_here : jump;
	find_tracker_code();
	sigaction(SIGTRAP, &action, NULL);
	for (int n = 0; n < 100; n++)
		exercise();
	for (tracing = code_from != 0; tracing < 4 && code_from; tracing++)
		traced(call);
	tracing = 0;
	if (code_from &&
	    mprotect((void *)code_from, code_to - code_from, PROT_READ | PROT_WRITE | PROT_EXEC))
		fail("mprotect");
	for (i = 0; i < place_count; i += stride) {
		victim[0] = get(80);
		victim[1] = get(LARGE);
		arm(places[i]);
		if (!sigsetjmp(back, 1))
			call();
		child_ends();
		disarm();
		if (victim[0])
			drop(victim[0]);
		if (victim[1])
			drop(victim[1]);
		victim[0] = victim[1] = NULL;
	}
	write_counts(argv[3]);
	say("done\nprocess\n");
	return 0;
}
